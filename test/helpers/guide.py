"""Small networks with the inputs and outputs of the models in docs/.

    python3 guide.py FOLDER

Each network computes something that a test can check: sums, means and maxima of its input.
"""

import os
import sys
from typing import Tuple

import torch
from torch import Tensor, nn
from torch.export import Dim

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)


def exported(name, forward, *examples, free=()):
    """Writes a program. `free` has the free dimensions of each argument, besides the batch."""

    class Network(nn.Module):
        pass

    Network.forward = forward
    shapes = tuple({0: Dim.DYNAMIC, **{dim: Dim.DYNAMIC for dim in free}} for _ in examples)
    program = torch.export.export(Network().eval(), examples, dynamic_shapes=shapes)
    torch.export.save(program, os.path.join(folder, name))


exported("spam.pt2", lambda self, counts: {"score": torch.tanh(counts.sum(1))}, torch.ones(2, 3))
exported(
    "mobilenet.pt2",
    lambda self, x: {"scores": x.flatten(1)[:, :1000] + 10 * x.mean((1, 2, 3))[:, None]},
    torch.ones(2, 3, 224, 224),
)
exported(
    "sharpen.pt2",
    lambda self, pixels: {"sharper": 255 - pixels},
    torch.ones(2, 8, 9, 3, dtype=torch.uint8),
    free=(1, 2),
)
exported("denoise.pt2", lambda self, samples: {"clean": samples / 2}, torch.ones(2, 16), free=(1,))
exported("stars.pt2", lambda self, light: {"planets": light[:, :3] * 2}, torch.ones(2, 100))
exported("planets.pt2", lambda self, light: {"planet": light.mean(1)}, torch.ones(2, 100))


def mood(self, ids):
    each = (ids % 3).float()
    return {"mood": each.sum(1), "each": each}


exported("mood.pt2", mood, torch.ones(2, 5, dtype=torch.int64), free=(1,))


def sentence(self, ids):
    return {"embedding": (ids.sum(1).float() / 1000)[:, None] + torch.arange(256.0)}


exported("sentences.pt2", sentence, torch.ones(2, 5, dtype=torch.int64), free=(1,))
exported("teller.pt2", lambda self, window: window[:, -1] + 1, torch.ones(2, 64, dtype=torch.int64))


class Detector(nn.Module):
    def forward(self, pixels):
        return pixels

    @torch.jit.export
    def find(self, pixels: Tensor, least: float, most: int, is_sorted: bool) -> Tuple[Tensor, int]:
        crops = pixels.flatten(1)[:, :most] + least
        return crops, int(crops.shape[0])


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = "none"

    def forward(self, crops: Tensor) -> Tensor:
        return crops * (50 if self.mode == "age" else 0)

    @torch.jit.export
    def set_mode(self, mode: str) -> None:
        self.mode = mode


class Classifier(nn.Module):
    def forward(self, x):
        return x.mean((1, 2, 3))[:, None] * torch.nn.functional.one_hot(torch.tensor(3), 10).float()


class Readings(nn.Module):
    def forward(self, x):
        return x.sum(1)


class Denoise(nn.Module):
    def forward(self, x: Tensor, strength: Tensor) -> Tensor:
        return x * (1 - strength)[:, None, None, None]


for name, network in {
    "detector.pt": Detector(),
    "reader.pt": Reader(),
    "model.pt": Classifier(),
    "readings.pt": Readings(),
    "denoise.pt": Denoise(),
}.items():
    torch.jit.script(network.eval()).save(os.path.join(folder, name))
