"""Writes modules that show whether batches which are under way together keep apart: python3 stateful.py FOLDER"""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn


class Keeps(nn.Module):
    """Gives a tensor of its own, into which the next batch writes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(2, 4))

    def forward(self, x: Tensor) -> Tensor:
        self.last.copy_(x * 2)
        return self.last


class Holds(nn.Module):
    """Holds its input until the next batch, to which it gives twice that."""

    def __init__(self):
        super().__init__()
        self.held = torch.zeros(2, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.held.to(x.device) * 2
        self.held = x
        return y


class Deep(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return ((x * 2) * 2) * 2 + 1


class Hungry(nn.Module):
    """Asks for more memory than there is where its input is above 1000."""

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.max() > 1000):
            return torch.zeros(1 << 46, device=x.device) + x
        return x * 2


folder = Path(sys.argv[1])
folder.mkdir(parents=True)
for kind in (Keeps, Holds, Deep, Hungry):
    torch.jit.script(kind().eval()).save(str(folder / f"{kind.__name__.lower()}.pt"))
