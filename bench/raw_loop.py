"""raw_loop.py WEIGHTS: what raw-loop.ts does, in PyTorch for Python and on one thread, with random numbers: a check of that one, and how
long a forward pass takes alone. Answers {"rows": …, "ms": …} with {"perSecond": …, "medianMs": …}, a line each."""
import json
import sys

import torch
from torch.utils.benchmark import Timer

network = torch.jit.load(sys.argv[1]).eval()
width = next(network.parameters()).shape[1]
network = torch.jit.freeze(network)
torch.set_num_threads(1)


def run(rows, seconds):
    with torch.inference_mode():
        timer = Timer("network(batch)", globals={"network": network, "batch": torch.rand(rows, width)})
        return timer.blocked_autorange(min_run_time=seconds)


# TorchScript specializes itself for the sizes that it sees first.
for rows in (1, 64):
    run(rows, 0.2)
for line in sys.stdin:
    asked = json.loads(line)
    done = run(asked["rows"], asked["ms"] / 1000)
    print(json.dumps({"perSecond": asked["rows"] / done.mean, "medianMs": done.median * 1000}), flush=True)
