"""Modules whose operators libtorch does not check or removes: an LSTM of another width, divisions of integers, unused layers."""

import math
import os
import sys
from typing import List

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


class Quotients(nn.Module):
    def forward(self, x: Tensor):
        return torch.div(x[:, 0], x[:, 1], rounding_mode="trunc")


class ShortQuotients(nn.Module):
    def forward(self, x: Tensor):
        return torch.div(x[:, 0].int(), x[:, 1].int(), rounding_mode="trunc").long()


class QuotientsByMinusOne(nn.Module):
    def forward(self, x: Tensor):
        return torch.div(x[:, 0], -1, rounding_mode="trunc")


class WrittenQuotients(nn.Module):
    def forward(self, x: Tensor):
        return x[:, 0].clone().div_(x[:, 1], rounding_mode="trunc")


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


class Element(Unused):
    """Uses one element of a tuple."""

    def forward(self, x: Tensor):
        total, _ = self.inner(x)
        return x * 2 + total.unsqueeze(1) * 0


class Index(Unused):
    def forward(self, x: Tensor):
        return x * 2 + self.inner(x)[-2].unsqueeze(1) * 0


class Listed(Pair):
    def forward(self, x: Tensor) -> List[Tensor]:
        return [x.sum(1), self.layer(x)]


@torch.jit.script
def product(x: Tensor) -> Tensor:
    return x @ torch.ones(3, 3)


@torch.jit.script
def doubled(x: Tensor) -> Tensor:
    product(x)
    return x * 2


class Function(nn.Module):
    """Calls a function that calls another, whose result it does not use."""

    def forward(self, x: Tensor):
        return doubled(x)


def refuses(network: nn.Module, x: Tensor) -> bool:
    try:
        network(x)
    except RuntimeError:
        return True
    return False


def save_unused(network: torch.jit.ScriptModule, path: str) -> None:
    network.save(path)
    # The executor of TorchScript removes layers without a use.
    with torch.jit.optimized_execution(False):
        assert network(torch.ones(2, 3)).eq(2).all() and refuses(network, torch.ones(2, 4))


def main(folder: str) -> None:
    os.makedirs(folder)
    torch.manual_seed(1)
    torch.jit.trace(Recurrent().eval(), torch.randn(2, 5, 6)).save(os.path.join(folder, "lstm.pt"))
    torch.jit.script(Remainder()).save(os.path.join(folder, "remainder.pt"))
    divisions = {"remainders": Remainders(), "item-remainders": ItemRemainders(), "floor-divisions": FloorDivisions(),
                 "item-floor-divisions": ItemFloorDivisions(), "pairs": Pairs(), "divisors": Divisors(), "by-minus-one": ByMinusOne(),
                 "quotients": Quotients(), "short-quotients": ShortQuotients(), "quotients-by-minus-one": QuotientsByMinusOne(),
                 "written-quotients": WrittenQuotients()}
    for name, network in divisions.items():
        torch.jit.script(network).save(os.path.join(folder, f"{name}.pt"))
    numbers = (torch.tensor([[7, 2]]),)
    torch.export.save(torch.export.export(Quotients(), numbers), os.path.join(folder, "quotients.pt2"))
    sequence = Unused(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))
    unused = {"layer": Unused(nn.Linear(3, 3)), "pair": Unused(Pair()), "list": Unused(Listed()), "sequence": sequence,
              "element": Element(Pair()), "index": Index(Pair()), "function": Function()}
    for name, network in unused.items():
        save_unused(torch.jit.script(network.eval()), os.path.join(folder, f"unused-{name}-scripted.pt"))
    # A traced file has no unused layers, except within a sequence.
    save_unused(torch.jit.trace(sequence, torch.ones(2, 3)), os.path.join(folder, "unused-sequence-traced.pt"))


main(sys.argv[1])
