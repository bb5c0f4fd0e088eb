"""resnet_cuda_loop.py WEIGHTS DEVICE: what PyTorch for Python does with batches of ready tensors on a GPU, two of them under way: each is
stacked in pinned memory and copied to the device, and its scores back. Answers {"rows": …, "ms": …} with {"perSecond": …}, a line each."""
import json
import sys
import time

import torch

weights, device = sys.argv[1], torch.device(sys.argv[2])
pinned = device.type == "cuda"
network = torch.jit.freeze(torch.jit.load(weights, map_location=device).eval())


def started(images, buffers):
    stacked, scores = buffers
    torch.stack(images, out=stacked)
    scores.copy_(network(stacked.to(device, non_blocking=True)), non_blocking=True)
    if not pinned:
        return None
    event = torch.cuda.Event()
    event.record()
    return event


def run(rows, ms):
    images = [torch.randint(0, 256, (3, 224, 224), dtype=torch.uint8) for _ in range(rows)]
    buffers = [
        (torch.empty(rows, 3, 224, 224, pin_memory=pinned), torch.empty(rows, 1000, pin_memory=pinned)) for _ in range(2)
    ]
    for i in range(6):
        event = started(images, buffers[i % 2])
        if event:
            event.synchronize()
    begin, count, last = time.perf_counter(), 0, None
    while (time.perf_counter() - begin) * 1000 < ms:
        event = started(images, buffers[count % 2])
        if last:
            last.synchronize()
        last, count = event, count + 1
    if last:
        last.synchronize()
    return {"perSecond": rows * count / (time.perf_counter() - begin)}


with torch.inference_mode():
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(run(asked["rows"], asked["ms"])), flush=True)
