"""Writes the network with its weights as an exported program: python export.py (any Python with torch). Only this step needs Python."""

from pathlib import Path

import torch
from torch import Tensor, nn

# Known colours in sRGB, in the order of the names in model.ts.
COLOURS = [
    (0, 0, 0),  # black
    (128, 128, 128),  # grey
    (255, 255, 255),  # white
    (220, 20, 30),  # red
    (245, 130, 32),  # orange
    (250, 220, 40),  # yellow
    (40, 160, 60),  # green
    (30, 190, 200),  # turquoise
    (40, 90, 220),  # blue
    (130, 50, 190),  # purple
    (245, 140, 190),  # pink
    (120, 72, 32),  # brown
]


class Colours(nn.Module):
    """Compares a colour with each known colour: perceptual distances (OKLab), turned into probabilities."""

    def __init__(self) -> None:
        super().__init__()
        # These weights are constants. A trained network loads its weights with load_state_dict.
        self.known = nn.Parameter(torch.tensor(COLOURS, dtype=torch.float32) / 255)
        self.register_buffer("weights", torch.tensor([0.5, 1.0, 1.0]))
        self.register_buffer(
            "to_lms",
            torch.tensor(
                [
                    [0.4122214708, 0.5363325363, 0.0514459929],
                    [0.2119034982, 0.6806995451, 0.1073969566],
                    [0.0883024619, 0.2817188376, 0.6299787005],
                ]
            ),
        )
        self.register_buffer(
            "to_lab",
            torch.tensor(
                [
                    [0.2104542553, 0.7936177850, -0.0040720468],
                    [1.9779984951, -2.4285922050, 0.4505937099],
                    [0.0259040371, 0.7827717662, -0.8086757660],
                ]
            ),
        )

    def lab(self, rgb: Tensor) -> Tensor:
        linear = torch.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        lab = (linear @ self.to_lms.T) ** (1 / 3) @ self.to_lab.T
        # Lightness says less about a colour's name than hue.
        return lab * self.weights

    def forward(self, rgb: Tensor) -> Tensor:
        """rgb: batch x 3, from 0 to 1. Returns batch x colours. The argument has the name of the tensor in model.ts."""
        distances = (self.lab(rgb)[:, None] - self.lab(self.known)).norm(dim=-1)
        return torch.softmax(-40 * distances, dim=-1)


if __name__ == "__main__":
    weights = Path(__file__).parent / "model.pt2"
    # The example sets dtypes and sizes of the inputs. The first size is the batch, which stays free.
    example = torch.zeros(2, 3)
    program = torch.export.export(Colours().eval(), (example,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.export.save(program, weights)
    print(f"wrote {weights}")
