"""weights.py FOLDER SIZE SIZE...: a fully connected network of these layer sizes as FOLDER/weights.pt, with random weights of a
fixed seed, and 64 inputs with PyTorch's own outputs as FOLDER/samples.json, against which answers are checked."""
import json
import os
import sys

import torch
from torch import nn


class Network(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        layers = []
        for given, taken in zip(sizes, sizes[1:]):
            layers += [nn.Linear(given, taken), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x):
        return self.layers(x)


folder, sizes = sys.argv[1], [int(size) for size in sys.argv[2:]]
torch.manual_seed(0)
network = Network(sizes).eval()
inputs = torch.rand(64, sizes[0]).mul(10_000).round().div(10_000)
with torch.inference_mode():
    outputs = network(inputs)
torch.jit.script(network).save(os.path.join(folder, "weights.pt"))
samples = {"inputs": [[round(value, 4) for value in row] for row in inputs.tolist()], "outputs": outputs.tolist()}
# Last, and renamed into place: where it lies, all of it was made.
path = os.path.join(folder, "samples.json")
with open(path + ".part", "w") as file:
    json.dump(samples, file)
os.replace(path + ".part", path)
