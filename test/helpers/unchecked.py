"""Modules whose operators libtorch does not check or removes: an LSTM of another width, divisions of integers, unused calls."""

import math
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


class Remainders(nn.Module):
    def forward(self, x: Tensor):
        return torch.full([x.size(0)], int(x[0, 0]) % int(x[0, 1]))


class ItemRemainders(nn.Module):
    def forward(self, x: Tensor):
        return torch.full([x.size(0)], int(x[0, 0].item() % x[0, 1].item()))


class FloorDivisions(nn.Module):
    def forward(self, x: Tensor):
        return torch.full([x.size(0)], int(x[0, 0]) // int(x[0, 1]))


class ItemFloorDivisions(nn.Module):
    def forward(self, x: Tensor):
        return torch.full([x.size(0)], int(x[0, 0].item() // x[0, 1].item()))


class Pairs(nn.Module):
    def forward(self, x: Tensor):
        quotient, rest = divmod(int(x[0, 0]), int(x[0, 1]))
        return torch.full([x.size(0)], quotient)


class Divisors(nn.Module):
    def forward(self, x: Tensor):
        return torch.full([x.size(0)], math.gcd(int(x[0, 0]), int(x[0, 1])))


class ByMinusOne(nn.Module):
    def forward(self, x: Tensor):
        return torch.full([x.size(0)], int(x[0, 0]) // -1)


class Asserting(nn.Module):
    def forward(self, x: Tensor):
        assert x.size(1) == 3, "three columns"
        return x.sum(1)


@torch.jit.script
def asserting(x: Tensor) -> Tensor:
    assert x.size(1) == 3, "three columns"
    return x.sum(1)


class UnusedLayer(nn.Module):
    """Gives twice the input, and calls a layer whose result it does not use."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(Asserting())

    def forward(self, x: Tensor):
        self.inner(x)
        return x * 2


class UnusedFunction(nn.Module):
    def forward(self, x: Tensor):
        asserting(x)
        return x * 2


def main(folder: str) -> None:
    os.makedirs(folder)
    torch.manual_seed(1)
    torch.jit.trace(Recurrent().eval(), torch.randn(2, 5, 6)).save(os.path.join(folder, "lstm.pt"))
    torch.jit.script(Remainder()).save(os.path.join(folder, "remainder.pt"))
    divisions = {"remainders": Remainders(), "item-remainders": ItemRemainders(), "floor-divisions": FloorDivisions(),
                 "item-floor-divisions": ItemFloorDivisions(), "pairs": Pairs(), "divisors": Divisors(), "by-minus-one": ByMinusOne()}
    for name, network in divisions.items():
        torch.jit.script(network).save(os.path.join(folder, f"{name}.pt"))
    for name, network in {"layer": UnusedLayer(), "function": UnusedFunction()}.items():
        torch.jit.script(network).save(os.path.join(folder, f"unused-{name}.pt"))


main(sys.argv[1])
