"""weights.py NAME FOLDER: writes a network to FOLDER/weights.pt, with random weights of a fixed seed: speed does not depend on training.

For fully connected networks also writes 64 inputs with PyTorch's outputs to FOLDER/samples.json. The benchmark checks answers with them.
"""
import json
import os
import sys
from pathlib import Path

import torch
from torch import nn

SIZES = {"tiny": [4, 16, 3], "mlp": [784, 2048, 2048, 10]}


class Connected(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        layers = [layer for given, taken in zip(sizes, sizes[1:]) for layer in (nn.Linear(given, taken), nn.ReLU())]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x):
        return self.layers(x)


class Mean(nn.Module):
    """The mean of each channel of a picture: a model without cost."""

    def forward(self, image):
        return image.float().mean((2, 3))


def convolution(given, taken, size, stride):
    return [nn.Conv2d(given, taken, size, stride, padding=size // 2, bias=False), nn.BatchNorm2d(taken)]


class Block(nn.Module):
    def __init__(self, given, taken, stride):
        super().__init__()
        self.residual = nn.Sequential(
            *convolution(given, taken, 3, stride), nn.ReLU(inplace=True), *convolution(taken, taken, 3, 1)
        )
        changes = stride != 1 or given != taken
        self.shortcut = nn.Sequential(*convolution(given, taken, 1, stride)) if changes else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.residual(x) + self.shortcut(x))


class ResNet18(nn.Module):
    """He et al., Deep Residual Learning for Image Recognition, 2015; table 1, projection shortcuts.

    The input is pixels as bytes, which the network normalizes: a quarter of the input memory, and vectorized.
    """

    def __init__(self):
        super().__init__()
        # Mean of ImageNet for values from 0 to 255: red, green, blue.
        self.register_buffer("mean", 255 * torch.tensor([0.485, 0.456, 0.406]).reshape(3, 1, 1))
        self.register_buffer("deviation", 255 * torch.tensor([0.229, 0.224, 0.225]).reshape(3, 1, 1))
        self.stem = nn.Sequential(*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1))
        widths = [64, 64, 128, 256, 512]
        stages = zip(widths, widths[1:], [1, 2, 2, 2])
        self.blocks = nn.Sequential(
            *[block for given, taken, stride in stages for block in (Block(given, taken, stride), Block(taken, taken, 1))]
        )
        self.classifier = nn.Linear(widths[-1], 1000)

    def forward(self, image):
        normalized = (image - self.mean) / self.deviation
        return self.classifier(self.blocks(self.stem(normalized)).mean((2, 3)))


name, folder = sys.argv[1:]
torch.manual_seed(0)
sizes = SIZES.get(name)
network = (Connected(sizes) if sizes else Mean() if name == "mean" else ResNet18()).eval()
if sizes:
    inputs = torch.rand(64, sizes[0]).mul(10_000).round().div(10_000)
    with torch.inference_mode():
        outputs = network(inputs)
    samples = {"inputs": [[round(value, 4) for value in row] for row in inputs.tolist()], "outputs": outputs.tolist()}
    Path(folder, "samples.json").write_text(json.dumps(samples))
# Renamed at the end: a file with the final name is complete.
torch.jit.script(network).save(folder + "/weights.part")
os.replace(folder + "/weights.part", folder + "/weights.pt")
