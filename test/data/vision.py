"""Calls of torchvision's operators, each with the result of torchvision.

    python3 vision.py > vision.json     # with torchvision 0.28.0 and torch 2.13
"""

import base64
import json

import torch
import torchvision  # noqa: F401

random = torch.Generator().manual_seed(58)
dtypes = [torch.float32, torch.float64, torch.float16]
calls = []


def floats(*shape):
    return torch.randn(*shape, generator=random)


def number(low, high):
    return int(torch.randint(low, high + 1, (1,), generator=random))


def told(value):
    if not isinstance(value, torch.Tensor):
        return value
    data = base64.b64encode(value.contiguous().numpy().tobytes()).decode()
    return {"dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape), "data": data}


def add(name, *given):
    result = getattr(torch.ops.torchvision, name)(*given)
    calls.append({"name": name, "given": [told(value) for value in given], "result": told(result)})


for count in [0, 1, 2, 20, 20, 20, 60, 60]:
    for dtype in dtypes[:2]:  # torchvision has no nms of half precision on CPUs
        boxes = floats(count, 4).abs()
        boxes[:, 2:] += boxes[:, :2]
        scores = floats(count)
        if number(0, 1):  # equal boxes and equal scores
            boxes, scores = boxes.round(), scores.round()
        add("nms", boxes.to(dtype), scores.to(dtype), [0.0, 0.3, 0.5][number(0, 2)])
add("nms", torch.tensor([[0, 0, float("nan"), 1], [0, 0, 1, 1], [0, 0, float("inf"), 1]]), torch.tensor([1.0, 3.0, 2.0]), 0.5)

for ratio in [-1, 0, 1, 2, 3]:
    for dtype in dtypes:
        for aligned in [False, True]:
            pictures = floats(2, 2, number(1, 9), number(1, 9))
            rois = floats(number(0, 3), 5).abs() * 8 - 2
            rois[:, 3:] = rois[:, 1:3] + floats(len(rois), 2).abs() * 6
            rois[:, 0] = torch.arange(len(rois)) % 2
            scale = [1.0, 0.25][number(0, 1)]
            add("roi_align", pictures.to(dtype), rois.to(dtype), scale, number(1, 4), number(1, 4), ratio, aligned)

for groups, offset_groups, taps_y, taps_x, stride, pad, dilation in [
    (1, 1, 3, 3, 1, 1, 1),
    (1, 1, 1, 1, 1, 0, 1),
    (2, 1, 3, 2, 2, 1, 1),
    (2, 3, 2, 3, 1, 2, 2),
]:
    for dtype in dtypes:
        for use_mask in [False, True] if dtype is torch.float32 else [True]:
            channels, height, width = groups * offset_groups, 4, 5
            rows = (height + 2 * pad - dilation * (taps_y - 1) - 1) // stride + 1
            columns = (width + 2 * pad - dilation * (taps_x - 1) - 1) // stride + 1
            tensors = [
                floats(1, channels, height, width),
                floats(groups, channels // groups, taps_y, taps_x),
                floats(1, offset_groups * 2 * taps_y * taps_x, rows, columns),
                floats(1, offset_groups * taps_y * taps_x, rows, columns) if use_mask else torch.zeros(1, 1),
                floats(groups),
            ]
            numbers = [stride, stride, pad, pad, dilation, dilation, groups, offset_groups, use_mask]
            add("deform_conv2d", *(tensor.to(dtype) for tensor in tensors), *numbers)

print(json.dumps(calls))
