"""raw_loop.py WEIGHTS float32|pictures DEVICE: what raw-loop.ts does, in PyTorch for Python and on one thread: a check of that one, and the
yardstick on a GPU, where two batches are under way: each is stacked in pinned memory and copied to the device, and its outputs back.
Answers {"rows": …, "ms": …} with {"perSecond": …, "medianMs": …}, a line each; the median is of single batches on the CPU."""
import json
import statistics
import sys
import time

import torch

weights, kind, device = sys.argv[1:]
torch.set_num_threads(1)
network = torch.jit.load(weights, map_location=device).eval()
width = next(network.parameters()).shape[-1]
network = torch.jit.freeze(network)


def inputs(rows):
    if kind == "pictures":
        return [torch.randint(0, 256, (3, 224, 224), dtype=torch.uint8) for _ in range(rows)]
    return list(torch.rand(rows, width))


def on_cpu(batch, seconds):
    batch, times = torch.stack(batch), []
    begin = now = time.perf_counter()
    while now - begin < seconds:
        network(batch)
        then, now = now, time.perf_counter()
        times.append(now - then)
    return len(times) / (now - begin), statistics.median(times)


def on_gpu(batch, seconds):
    shape = network(torch.stack(batch[:1]).to(device)).shape[1:]
    rows = len(batch)
    buffers = [
        (torch.empty(rows, *batch[0].shape, dtype=batch[0].dtype, pin_memory=True), torch.empty(rows, *shape, pin_memory=True))
        for _ in range(2)
    ]
    begin, count, last = time.perf_counter(), 0, None
    while time.perf_counter() - begin < seconds:
        stacked, outputs = buffers[count % 2]
        torch.stack(batch, out=stacked)
        outputs.copy_(network(stacked.to(device, non_blocking=True)), non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        if last:
            last.synchronize()
        last, count = event, count + 1
    last.synchronize()
    return count / (time.perf_counter() - begin), None


with torch.inference_mode():
    run = on_cpu if device == "cpu" else on_gpu
    # TorchScript specializes itself for the sizes that it sees first.
    for rows in (1, 64):
        run(inputs(rows), 0.2)
    for line in sys.stdin:
        asked = json.loads(line)
        rate, median = run(inputs(asked["rows"]), asked["ms"] / 1000)
        print(json.dumps({"perSecond": rate * asked["rows"], **({"medianMs": median * 1000} if median else {})}), flush=True)
