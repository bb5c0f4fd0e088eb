"""Networks whose values change when a pass over their graph is wrong, each scripted, traced, exported and decomposed.

    python3 frozen.py FOLDER

FOLDER/frozen.json has an input of each and what PyTorch gives for it. Most have normalisation after a layer that it may not be folded into.
"""

import json
import os
import sys
from typing import List

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Sequence(nn.Module):
    """Layers one after the other."""

    def __init__(self, *layers: nn.Module):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


class Unbatched(nn.Module):
    """A convolution over one signal: its channels are dimension 0, and normalisation scales dimension 1."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv1d(3, 8, 3)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x):
        return x[:, :1, :8] * self.norm(self.convolution(x[0]))


class Picture(nn.Module):
    """The same of one picture."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x):
        return x[:, :1] * self.norm(self.convolution(x[0]))


class Training(nn.Module):
    """Normalises by the statistics of the batch."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        norm = self.norm
        y = self.convolution(x)
        return F.batch_norm(y, norm.running_mean, norm.running_var, norm.weight, norm.bias, training=True, momentum=0.0)


class Shared(nn.Module):
    """Reads a layer before its normalisation too, and normalises another twice."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(3, 8, 1)
        self.norm, self.other = nn.BatchNorm2d(8), nn.BatchNorm2d(8, affine=False)

    def forward(self, x):
        y, z = self.first(x), self.second(x)
        return y + self.norm(y) + self.norm(z) * self.other(z)


class Written(nn.Module):
    """Writes into what a layer gave before it is normalised, and after."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        y = self.convolution(x)
        y[:, 2] = 1.5
        y = self.norm(y)
        y.relu_()
        z = self.norm(self.convolution(x))
        z.mul_(2.0)
        return y + z


class Aliased(nn.Module):
    """Writes into results that are their very input, though their operators do not say so."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 32, 3, padding=1)

    def forward(self, x):
        same = self.convolution(x)
        written = same.type_as(x).relu_()
        return written + same


class Cell(nn.Module):
    """Adds two products of different widths."""

    def __init__(self, kind: type):
        super().__init__()
        self.cell = kind(5, 4)

    def forward(self, x):
        state = self.cell(x)
        if isinstance(state, tuple):
            return torch.cat(self.cell(x * 2, state), 1)
        return self.cell(x * 2, state)


class Products(nn.Module):
    """Adds products of different heights, and of different widths."""

    def __init__(self):
        super().__init__()
        self.weight, self.narrow = nn.Parameter(torch.randn(5, 4)), nn.Parameter(torch.randn(3, 4))

    def forward(self, x):
        return torch.mm(x, self.weight) + torch.mm(x[:1], self.weight) + torch.mm(x[:, :3], self.narrow)


class Zeros(nn.Module):
    """Tells 0.0 from -0.0: as constants that are equal, and as what is added."""

    def __init__(self):
        super().__init__()
        self.register_buffer("plus", torch.zeros(4))
        self.register_buffer("minus", -torch.zeros(4))

    def forward(self, x):
        return torch.cat([torch.copysign(x, self.plus), torch.copysign(x, self.minus), torch.atan(1 / (x * self.minus + 0))], 1)


class Dense(nn.Module):
    """Joins a list that grows."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(11, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        features: List[Tensor] = [x]
        features.append(F.relu(self.norm(self.first(torch.cat(features, 1)))))
        features.append(self.norm(self.second(torch.cat(features, 1))))
        return torch.cat(features, 1)


class Branch(nn.Module):
    """Normalises, or not."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        y = self.convolution(x)
        if bool(x.sum() > 1e6):
            y = self.norm(y)
        for i in range(3):
            y = y * float(i + 1)
        return y


@torch.jit.interface
class Layer(nn.Module):
    def forward(self, input: Tensor) -> Tensor:
        pass


class Chosen(nn.Module):
    """Chooses a layer while it runs, and calls one through an interface."""

    layer: Layer

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(3, 8, 1), nn.Conv2d(3, 8, 3, padding=1)])
        self.layer = nn.Conv2d(8, 8, 3)

    def forward(self, x):
        chosen: Layer = self.layers[x.dim() - 3]
        return self.layer.forward(chosen.forward(x))


class Interface(nn.Module):
    layer: Layer

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        return self.norm(self.layer.forward(x))


class Moved(nn.Module):
    """Gives a tensor another rank where it lies."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x):
        y = x.clone()
        y.unsqueeze_(1)
        return self.norm(self.linear(y.expand(-1, 8, -1)))


PICTURE = (4, 3, 8, 8)
NETWORKS = {
    "linear, three dimensions": (lambda: Sequence(nn.Linear(16, 16), nn.BatchNorm1d(16)), (4, 16, 16)),
    "linear, four dimensions": (lambda: Sequence(nn.Linear(16, 3), nn.BatchNorm2d(3)), (4, 3, 8, 16)),
    "linear, two dimensions": (lambda: Sequence(nn.Linear(16, 12), nn.BatchNorm1d(12), nn.ReLU(inplace=True)), (4, 16)),
    "linear, without its own scale": (lambda: Sequence(nn.Linear(16, 12, bias=False), nn.BatchNorm1d(12, affine=False)), (4, 16)),
    "convolution": (lambda: Sequence(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.Dropout(), nn.Conv2d(16, 8, 3, groups=2), nn.BatchNorm2d(8)), PICTURE),
    "convolution of signals": (lambda: Sequence(nn.Conv1d(3, 8, 3, bias=False), nn.BatchNorm1d(8)), (4, 3, 10)),
    "convolution of volumes": (lambda: Sequence(nn.Conv3d(3, 8, 3), nn.BatchNorm3d(8)), (4, 3, 4, 5, 6)),
    "transposed convolution": (lambda: Sequence(nn.ConvTranspose2d(3, 3, 3), nn.BatchNorm2d(3)), PICTURE),
    "channels last": (lambda: Sequence(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).to(memory_format=torch.channels_last), PICTURE),
    "no statistics": (lambda: Sequence(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, track_running_stats=False)), PICTURE),
    "tiny variance": (lambda: vanish(Sequence(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, eps=0.0))), PICTURE),
    "unbatched signal": (Unbatched, (4, 3, 10)),
    "unbatched picture": (Picture, PICTURE),
    "training": (Training, PICTURE),
    "shared": (Shared, PICTURE),
    "written": (Written, PICTURE),
    "aliased": (Aliased, PICTURE),
    "long short-term memory": (lambda: Cell(nn.LSTMCell), (4, 5)),
    "recurrent cell": (lambda: Cell(nn.RNNCell), (4, 5)),
    "gated cell": (lambda: Cell(nn.GRUCell), (4, 5)),
    "products": (Products, (4, 5)),
    "zeros": (Zeros, (3, 4)),
    "growing list": (Dense, PICTURE),
    "branch": (Branch, PICTURE),
    "moved": (Moved, (4, 8)),
    "interface": (Interface, PICTURE),
    "chosen": (Chosen, PICTURE),
}  # fmt: skip
SCRIPTED_ONLY = {"branch", "interface", "chosen"}
# sconce refuses programs in training mode.
NOT_EXPORTED = {"training"}
# The cells take tuples in eager mode only.
NOT_SCRIPTED = {"long short-term memory", "recurrent cell", "gated cell"}


def vanish(network: nn.Module) -> nn.Module:
    """Some channels have no variance, so that their scale is not finite."""
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.vanishes = True
    return network


def train(network: nn.Module) -> None:
    """Gives normalisation the numbers that training would."""
    for layer in network.modules():
        if isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
            for each in (layer.weight, layer.bias, layer.running_mean):
                if each is not None:
                    each.data.normal_()
            if layer.running_var is not None:
                layer.running_var.uniform_(0.2, 3)
                if hasattr(layer, "vanishes"):
                    layer.running_var[::2] = 1e-30
                    del layer.vanishes


def ways(name: str, network: nn.Module, x: Tensor):
    """The files of a network, and how each is written."""
    if name not in NOT_SCRIPTED:
        yield "scripted.pt", lambda path: torch.jit.script(network).save(path)
    if name in SCRIPTED_ONLY:
        return
    yield "traced.pt", lambda path: torch.jit.trace(network, x).save(path)
    if name in NOT_EXPORTED:
        return
    program = torch.export.export(network, (x,))
    yield "exported.pt2", lambda path: torch.export.save(program, path)
    yield "decomposed.pt2", lambda path: torch.export.save(program.run_decompositions(), path)


def plain(tensor: Tensor) -> dict:
    return {"shape": list(tensor.shape), "data": tensor.flatten().tolist()}


def main(folder: str) -> None:
    os.makedirs(folder)
    known = {}
    for i, (name, (make, shape)) in enumerate(NETWORKS.items()):
        torch.manual_seed(5)
        network, x = make().eval(), torch.randn(shape)
        train(network)
        with torch.no_grad():
            y = network(x)
            files = []
            for way, save in ways(name, network, x):
                files.append(f"{i}-{way}")
                save(os.path.join(folder, files[-1]))
        known[name] = {"files": files, "x": plain(x), "y": plain(y)}
    with open(os.path.join(folder, "frozen.json"), "w") as out:
        json.dump(known, out)


main(sys.argv[1])
