"""Makes compiled packages that only slow tests use, as weights.py makes weights.

    python3 packages.py FOLDER

With the package of weights.py: each dtype, and each number of inputs.
"""

import os
import sys
import warnings
from typing import Tuple

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx.experimental import _config as symbolic_shapes

import weights


class Enlarged(nn.Module):
    """A picture's negative, twice as wide and high: it stands in for the network of the example upscale."""

    def forward(self, pixels: Tensor) -> Tensor:
        rows, height, width, colors = pixels.shape
        twice = (255 - pixels).reshape(rows, height, 1, width, 1, colors).expand(-1, -1, 2, -1, 2, -1)
        return twice.reshape(rows, 2 * height, 2 * width, colors)


def enlarged(folder: str) -> Tuple[ExportedProgram, Tensor]:
    """An exported program for pictures of any size, and the pictures that it was exported with."""
    torch.manual_seed(4)
    pixels = weights.random_input(torch.uint8, weights.ROWS, 5, 4, 3)
    sides = {axis: torch.export.Dim(name, min=1, max=16384) for axis, name in ((1, "height"), (2, "width"))}
    free = {0: torch.export.Dim("batch", min=1, max=4096), **sides}
    # Else torch takes it that no size is 1.
    symbolic_shapes.backed_size_oblivious = True
    program = torch.export.export(Enlarged(), (pixels,), dynamic_shapes={"pixels": free})
    torch.export.save(program, os.path.join(folder, "enlarged.pt2"))
    return program, pixels


def generate(folder: str) -> None:
    warnings.simplefilter("ignore")
    os.makedirs(folder)
    name, several = weights.aotinductor(folder, "int64", "several", "dict")
    program, pixels = enlarged(folder)
    weights.package(program, os.path.join(folder, "enlarged-compiled.pt2"))
    made = weights.entry("enlarged-compiled.pt2", {"pixels": pixels}, {"enlarged": Enlarged()(pixels)})
    weights.write_list(folder, {name: several, "aotinductor uint8 one tensor": made})


if __name__ == "__main__":
    generate(os.path.abspath(sys.argv[1]))
