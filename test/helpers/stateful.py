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


class Sums(nn.Module):
    """Adds up what it was called with since it was reset, in place and by assignment."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(1, 4))
        self.calls = torch.zeros(1, 4)

    @torch.jit.export
    def reset(self) -> None:
        self.total.zero_()
        self.calls = torch.zeros(1, 4)

    def forward(self, x: Tensor) -> Tensor:
        self.total += x
        self.calls = self.calls + 1
        return self.total * 1000 + self.calls


class Lists(nn.Module):
    """Writes into a tensor of a list."""

    def __init__(self):
        super().__init__()
        self.last = [torch.zeros(2, 4)]

    def forward(self, x: Tensor) -> Tensor:
        self.last[0].copy_(x)
        return self.last[0] * 2


class Tuned(nn.Module):
    """Writes into tensors that it made itself."""

    def __init__(self):
        super().__init__()
        self.norm = nn.Sequential(nn.BatchNorm1d(4), nn.ReLU(inplace=True))
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x) * self.weight
        y[:, 0] = 0
        return y.clamp_(max=6)


class Deep(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return ((x * 2) * 2) * 2 + 1


class Drops(nn.Module):
    """Dropout as a careless trace keeps it."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.dropout(x, 0.5, True)


class Mixes(nn.Module):
    """A softmax over the items of a batch."""

    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(0)


class Hungry(nn.Module):
    """Asks for more memory than there is where its input is above 1000."""

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.max() > 1000):
            return torch.zeros(1 << 46, device=x.device) + x
        return x * 2


folder = Path(sys.argv[1])
folder.mkdir(parents=True)
for kind in (Keeps, Holds, Sums, Lists, Tuned, Deep, Drops, Mixes, Hungry):
    torch.jit.script(kind().eval()).save(str(folder / f"{kind.__name__.lower()}.pt"))
