"""Exported programs, which weights.py makes in no time, as nothing is compiled."""

import json
import os
import warnings

import torch
from torch import nn
from torch.export import Dim, export, save

import weights


class Masked(nn.Module):
    def forward(self, tokens, mask):
        each = tokens.to(torch.float32) * mask
        return {"total": each.sum(1), "each": each, "twice": torch.cat([each, each], 1)}


class Partial(nn.Module):
    def forward(self, x):
        return {"low": x - 1, "aside": None, "high": x + 1}


class Shifted(nn.Module):
    def forward(self, x, by):
        return x + by


class Steps(nn.Module):
    """What networks are made of, on small sizes: weights, buffers that are kept or not, constants, lists, sizes and infinities."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.linear = nn.Linear(4, 6)
        self.tied = nn.Linear(4, 6)
        self.tied.weight = self.linear.weight
        self.norm = nn.BatchNorm1d(6)
        self.register_buffer("shift", torch.arange(6.0).reshape(2, 3).T.reshape(-1), persistent=False)

    def forward(self, x, mask):
        rows, length, _ = x.shape
        with torch.no_grad():
            y = self.norm((self.linear(x) + self.tied(x)).transpose(1, 2)).transpose(1, 2) + self.shift
        first, second = y.split([2, 4], -1)
        scores = torch.einsum("nld,nmd->nlm", second, second).masked_fill(mask[:, None, :] == 0, float("-inf"))
        scores = scores + torch.arange(length, device=x.device) * torch.tensor(0.5)
        picked = second[torch.arange(rows, device=x.device), :, torch.tensor([1, 3])[:, None]]
        best, at = scores.softmax(-1).to(torch.float64).max(-1)
        flat = first.reshape(rows * length, 2).reshape(rows, 2 * length)[:, 1:]
        return {"best": best, "at": at.to(torch.int32), "flat": flat, "picked": picked.permute(1, 2, 0)}


def main(folder: str) -> None:
    warnings.simplefilter("ignore")
    os.makedirs(folder)
    batch, length = Dim("batch", min=1, max=16), Dim("length", min=4, max=512)
    free = {0: batch, 1: length}
    masked = (torch.ones(3, 7, dtype=torch.int64),), {"mask": torch.ones(3, 7)}
    save(export(Masked(), *masked, dynamic_shapes={"tokens": free, "mask": free}), os.path.join(folder, "masked.pt2"))
    # The one of which weights.py makes a package.
    module, inputs, _ = weights.arithmetic("float32", "one", "tuple")
    shapes = {"x": {0: Dim("batch", min=1, max=4096)}}
    save(export(module, tuple(inputs.values()), dynamic_shapes=shapes), os.path.join(folder, "tuple.pt2"))
    steps, given = Steps().eval(), (torch.rand(2, 5, 4), torch.tensor([[1.0] * 5, [1, 1, 0, 0, 0]]))
    shapes = {"x": {0: Dim.DYNAMIC, 1: length}, "mask": {0: Dim.DYNAMIC, 1: length}}
    save(export(steps, given, dynamic_shapes=shapes), os.path.join(folder, "steps.pt2"))
    given = torch.rand(3, 7, 4), (torch.rand(3, 7) < 0.7).float().index_fill(1, torch.tensor([0]), 1)
    results = {name: value.detach().flatten().tolist() for name, value in steps(*given).items()}
    with open(os.path.join(folder, "steps.json"), "w") as file:
        json.dump({"x": given[0].flatten().tolist(), "mask": given[1].flatten().tolist(), **results}, file)
    save(export(Partial(), (torch.ones(2, 3),), dynamic_shapes=({0: Dim.DYNAMIC},)), os.path.join(folder, "partial.pt2"))
    save(export(Shifted(), (torch.ones(2, 3), 1)), os.path.join(folder, "number.pt2"))
