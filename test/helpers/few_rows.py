"""An exported program of convolutions whose example has two rows. Inductor would compile it for at most 15."""

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
