"""Exported programs, which are made in no time, as nothing is compiled: python3 programs.py FOLDER."""

import os
import sys
import warnings

import torch
from torch import nn
from torch.export import Dim, export, save

import weights


class Masked(nn.Module):
    def forward(self, tokens, mask):
        each = tokens.to(torch.float32) * mask
        return {"total": each.sum(1), "each": each, "twice": torch.cat([each, each], 1)}


class Shifted(nn.Module):
    def forward(self, x, by):
        return x + by


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
    save(export(Shifted(), (torch.ones(2, 3), 1)), os.path.join(folder, "number.pt2"))


if __name__ == "__main__":
    main(sys.argv[1])
