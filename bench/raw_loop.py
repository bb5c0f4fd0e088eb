"""raw_loop.py FOLDER THREADS: what raw-loop.ts does, in PyTorch for Python, as a check of that one. Answers the requests of raw.ts."""
import json
import os
import statistics
import sys
import time

import torch

folder, threads = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(threads)
network = torch.jit.freeze(torch.jit.load(os.path.join(folder, "weights.pt")).eval())
with open(os.path.join(folder, "samples.json")) as file:
    inputs = torch.tensor(json.load(file)["inputs"])


def run(rows, ms):
    """Items a second and the median time of a batch, over `ms` milliseconds of batches of `rows`."""
    times = []
    batch = inputs[:rows]
    begin = now = time.perf_counter()
    while (now - begin) * 1000 < ms:
        network(batch)
        then, now = now, time.perf_counter()
        times.append(now - then)
    return {"perSecond": rows * len(times) / (now - begin), "medianMs": statistics.median(times) * 1000}


with torch.inference_mode():
    for rows in (1, 1, 1, len(inputs), len(inputs), len(inputs)):
        network(inputs[:rows])
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(run(asked["rows"], asked["ms"])), flush=True)
