"""Networks that write: some into state that the next run reads, others only into tensors that they made. weights.py makes them."""

from typing import Optional

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


class Remembers(nn.Module):
    """Writes into a tensor that may be missing."""

    last: Optional[Tensor]

    def __init__(self):
        super().__init__()
        self.last = torch.zeros(2, 4)

    def forward(self, x: Tensor) -> Tensor:
        last = self.last
        return x if last is None else last.copy_(x * 2)


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


class Rectified(nn.Module):
    """A layer without a bias, whose result is written into."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Unflatten(1, (4, 1)), nn.Conv1d(4, 4, 1, bias=False), nn.ReLU(inplace=True))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).flatten(1)


NETWORKS = [Keeps, Holds, Sums, Lists, Remembers, Tuned, Rectified]
