"""raw_loop.py WEIGHTS DEVICE: the loop of raw-loop.ts in PyTorch for Python: one thread, one batch at a time, random inputs.

Checks the other loop, and measures the time of a single forward pass, including copies to and from a GPU. Answers each line
{"rows": …, "ms": …} with a line {"perSecond": …, "medianMs": …}.
"""
import json
import sys

import torch
from torch.utils.benchmark import Timer

device = sys.argv[2]
network = torch.jit.load(sys.argv[1], map_location=device).eval()
shape = next(network.parameters()).shape
network = torch.jit.freeze(network)
torch.set_num_threads(1)


def run(rows, seconds):
    with torch.inference_mode():
        batch = torch.rand(rows, shape[1]) if len(shape) == 2 else torch.randint(256, (rows, 3, 224, 224), dtype=torch.uint8)
        timer = Timer("network(batch.to(device)).cpu()", globals={"network": network, "batch": batch, "device": device})
        return timer.blocked_autorange(min_run_time=seconds)


# TorchScript compiles code for the batch sizes of its first runs, so both sizes of the benchmark run here.
for rows in (1, 64):
    run(rows, 0.2)
for line in sys.stdin:
    asked = json.loads(line)
    done = run(asked["rows"], asked["ms"] / 1000)
    print(json.dumps({"perSecond": asked["rows"] / done.mean, "medianMs": done.median * 1000}), flush=True)
