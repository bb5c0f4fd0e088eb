"""Modules whose operators libtorch does not check or removes: an LSTM of another width, a remainder by zero, unused layers."""

import os
import sys

import torch
from torch import Tensor, nn


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 3, num_layers=2, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


class Remainder(nn.Module):
    def forward(self, x: Tensor):
        return x.sum(1) + (x.size(1) % (x.size(1) - 3))


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor):
        return x.sum(1), self.layer(x)


class Unused(nn.Module):
    """Gives twice the input, and calls a layer whose result it does not use."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.inner = layer

    def forward(self, x: Tensor):
        self.inner(x)
        return x * 2


def refuses(network: nn.Module, x: Tensor) -> bool:
    try:
        network(x)
    except RuntimeError:
        return True
    return False


def main(folder: str) -> None:
    os.makedirs(folder)
    torch.manual_seed(1)
    torch.jit.trace(Recurrent().eval(), torch.randn(2, 5, 6)).save(os.path.join(folder, "lstm.pt"))
    torch.jit.script(Remainder()).save(os.path.join(folder, "remainder.pt"))
    for name, layer in (("layer", nn.Linear(3, 3)), ("pair", Pair()), ("sequence", nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))):
        unused = Unused(layer).eval()
        assert unused(torch.ones(2, 3)).eq(2).all() and refuses(unused, torch.ones(2, 4))
        torch.jit.script(unused).save(os.path.join(folder, f"unused-{name}-scripted.pt"))
    # A traced file has no unused layers, except within a sequence.
    torch.jit.trace(unused, torch.ones(2, 3)).save(os.path.join(folder, "unused-sequence-traced.pt"))


main(sys.argv[1])
