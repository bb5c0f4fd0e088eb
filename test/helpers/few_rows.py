"""Exported programs whose examples have few rows. Inductor would compile the convolutions for at most 15."""

import os
import sys

import torch
from torch import nn
from torch.export import Dim, export, save

folder = sys.argv[1]
os.makedirs(folder)
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
save(export(net.eval(), (torch.rand(2, 3, 16, 16),), dynamic_shapes=({0: Dim.DYNAMIC},)), os.path.join(folder, "few.pt2"))


class Widths(nn.Module):
    """One width has a declared range. Two arguments and a result are no tensors. Autocast runs only compiled."""

    def forward(self, mask, x, y, by):
        with torch.autocast("cpu"):
            mean = y.mean(1)
        return x * by if mask is None else x * mask, None, mean


width = Dim("width", min=1, max=20)
shapes = (None, {0: Dim.DYNAMIC, 1: width}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, None)
program = export(Widths().eval(), (None, torch.rand(4, 5), torch.rand(4, 6)), {"by": 2}, dynamic_shapes=shapes)
save(program, os.path.join(folder, "widths.pt2"))


class Constant(nn.Module):
    def forward(self, x):
        number = torch.scalar_tensor(-1)
        return number * number, number


save(export(Constant(), (torch.rand(4, 2),), dynamic_shapes=({0: Dim.DYNAMIC},)), os.path.join(folder, "constant.pt2"))


class Sum(nn.Module):
    """The first size is no batch."""

    def forward(self, x):
        return x.sum(0)


program = export(Sum(), (torch.rand(4, 2),), dynamic_shapes=({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},))
path = os.path.join(folder, "sum-compiled.pt2")
torch._inductor.aoti_compile_and_package(program, package_path=path, inductor_configs={"aot_inductor.precompile_headers": False})
