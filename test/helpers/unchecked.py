"""Modules whose operators libtorch does not check: an LSTM of another width, and a remainder by zero."""

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


def main(folder: str) -> None:
    os.makedirs(folder)
    torch.manual_seed(1)
    torch.jit.trace(Recurrent().eval(), torch.randn(2, 5, 6)).save(os.path.join(folder, "lstm.pt"))
    torch.jit.script(Remainder()).save(os.path.join(folder, "remainder.pt"))


main(sys.argv[1])
