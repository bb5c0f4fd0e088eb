"""A module whose methods show whether its tensors are copied.

    python3 device_tensors.py FOLDER

writes FOLDER/device-tensors.pt, and FOLDER/append.pt2, an exported program with a cache.
"""

import os
import sys
from typing import List, Tuple

import torch
from torch import Tensor, nn


class Methods(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1

    @torch.jit.export
    def bump(self, x: Tensor) -> Tensor:
        """Writes into its argument."""
        return x.add_(1).sum()

    @torch.jit.export
    def same(self, x: Tensor) -> Tensor:
        return x

    @torch.jit.export
    def halves(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        """Two views of one new tensor."""
        both = x * 1
        return both[: x.size(0) // 2], both[x.size(0) // 2 :]

    @torch.jit.export
    def transposed(self, x: Tensor) -> Tensor:
        return (x * 1).t()

    @torch.jit.export
    def stacked(self, rows: List[Tensor]) -> Tensor:
        return torch.stack(rows)

    @torch.jit.export
    def ones(self, count: int) -> Tensor:
        return torch.ones(count)


class Append(nn.Module):
    """Appends a row to the cache of each item, as a decoder does with keys and values."""

    def forward(self, row: Tensor, cache: Tensor) -> Tuple[Tensor, Tensor]:
        grown = torch.cat([cache, row.unsqueeze(1)], 1)
        return grown.sum(2), grown


os.makedirs(sys.argv[1], exist_ok=True)
torch.jit.script(Methods()).save(f"{sys.argv[1]}/device-tensors.pt")
items, length = torch.export.Dim("items", min=1, max=64), torch.export.Dim("length", max=100_000)
program = torch.export.export(
    Append().eval(), (torch.zeros(2, 3), torch.zeros(2, 4, 3)), dynamic_shapes=({0: items}, {0: items, 1: length})
)
torch.export.save(program, f"{sys.argv[1]}/append.pt2")
