"""A network with linear layers that are packed, and a network with convolutions that are packed."""

import os
import sys

import torch
from torch import nn


def main(folder: str) -> None:
    os.makedirs(folder)
    torch.manual_seed(5)
    linear = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 768), nn.ReLU(), nn.Linear(768, 512), nn.ReLU(), nn.Linear(512, 10))
    convolutions = nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    for name, network in (("linear", linear), ("convolutions", convolutions)):
        torch.jit.script(network.eval()).save(os.path.join(folder, f"{name}.pt"))


main(sys.argv[1])
