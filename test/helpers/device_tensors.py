"""A module whose methods show whether its tensors are copied.

    python3 device_tensors.py FOLDER

writes FOLDER/device-tensors.pt.
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


os.makedirs(sys.argv[1], exist_ok=True)
torch.jit.script(Methods()).save(f"{sys.argv[1]}/device-tensors.pt")
