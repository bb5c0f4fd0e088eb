"""Runs the writer's methods on PyTorch's meta device, which has shapes only, and refuses operators whose tensors are on several devices.

    python3 writer_devices.py FOLDER
"""

import os
import sys
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

WEIGHTS = Path(__file__).parents[2] / "examples/writer/writer.pt"
COPIES = {"_to_copy", "copy_"}


class OneDevice(TorchDispatchMode):
    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        devices = {each.device.type for each in tensors if each.dim() > 0}
        if len(devices) > 1 and operator.overloadpacket.__name__ not in COPIES:
            raise RuntimeError(f"{operator} has tensors on {devices}")
        return operator(*args, **(kwargs or {}))


network = torch.jit.load(WEIGHTS, map_location="meta")
prompt = torch.zeros(5, dtype=torch.int64, device="meta")
with OneDevice():
    _, cache = network.begin(prompt)
    scores, caches = network.step(prompt[:2], [cache, cache[:, :, :3]])
assert scores.shape == (2, 128) and [each.size(2) for each in caches] == [6, 4]
os.makedirs(sys.argv[1], exist_ok=True)
