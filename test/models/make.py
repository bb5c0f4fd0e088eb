"""Writes the weights of the models in this folder, as TorchScript: PYTHONPATH=<torch> python3 test/models/make.py"""

import base64
import json
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn

HERE = Path(__file__).parent


class Lab(nn.Module):
    """2 x + 1, after as many matrix products as the slowest item of the batch asks for; says how large the batch was."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(2.0))
        self.offset = nn.Parameter(torch.tensor(1.0))

    def forward(self, x: Tensor, steps: Tensor) -> Tuple[Tensor, Tensor]:
        if bool((steps < 0).any()):
            raise ValueError("steps must not be negative")
        square = torch.full((256, 256), 1.0 / 256)
        for _ in range(int(steps.max())):
            square = torch.mm(square, square)
        y = x * self.slope + self.offset + (square[0, 0] - square[0, 0])
        return y, torch.full_like(steps, x.shape[0])


class Shapes(nn.Module):
    """Matrix times vector, and how many of a mask's bytes are set; results by name."""

    def forward(self, matrix: Tensor, vector: Tensor, mask: Tensor) -> Dict[str, Tensor]:
        product = torch.bmm(matrix, vector.unsqueeze(-1)).squeeze(-1)
        return {"set": (mask > 0).sum(-1), "product": product}


class Picture(nn.Module):
    """The mean of each channel."""

    def forward(self, pixels: Tensor) -> Tensor:
        return pixels.mean(dim=(2, 3))


class Detector(nn.Module):
    """Finds what stands side by side on a page, parted by columns without ink."""

    @torch.jit.export
    def find(self, pages: Tensor, threshold: float, limit: int) -> Tuple[Tensor, Tensor]:
        """Left, top, right and bottom of up to `limit` boxes of each page, and how many there are."""
        boxes = torch.zeros(pages.size(0), limit, 4, dtype=torch.int64)
        counts = torch.zeros(pages.size(0), dtype=torch.int64)
        for i in range(pages.size(0)):
            ink = pages[i] > threshold
            columns = ink.any(0)
            count, left = 0, -1
            for column in range(columns.size(0) + 1):
                has_ink = column < columns.size(0) and bool(columns[column])
                if has_ink and left < 0:
                    left = column
                if not has_ink and left >= 0:
                    rows = ink[:, left:column].any(1).nonzero()
                    if count < limit:
                        boxes[i, count] = torch.tensor([left, int(rows.min()), column, int(rows.max()) + 1])
                        count += 1
                    left = -1
            counts[i] = count
        return boxes, counts


class Meter(nn.Module):
    """The level of a signal that comes in pieces: what it has heard so far decays with a time constant."""

    def __init__(self) -> None:
        super().__init__()
        self.level = torch.zeros(())
        self.heard = 0

    @torch.jit.export
    def reset(self) -> None:
        self.level = torch.zeros(())
        self.heard = 0

    @torch.jit.export
    def step(self, piece: Tensor, sampling_rate: int, decay: float = 0.5, squared: bool = True, unit: str = "level") -> Tensor:
        for sample in piece:
            power = sample * sample if squared else sample.abs()
            weight = torch.exp(torch.tensor(-1.0 / (decay * sampling_rate)))
            self.level = self.level * weight + power * (1 - weight)
            self.heard += 1
        if unit == "decibel":
            return 10 * torch.log10(self.level)
        return self.level

    @torch.jit.export
    def samples(self) -> int:
        return self.heard


class Hungry(nn.Module):
    """2 x; asks for 2**50 bytes once the square of the rows is 8 or more."""

    def forward(self, x: Tensor) -> Tensor:
        scratch = torch.empty((x.size(0) * x.size(0) // 8) << 50, dtype=torch.uint8)
        return x * 2 + min(scratch.size(0), 0)


class Pair(NamedTuple):
    low: Tensor
    count: int


class Methods(nn.Module):
    """One method for each kind of argument and result."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = torch.zeros(2)

    def forward(self, x: Tensor) -> Tensor:
        return x + 1

    @torch.jit.export
    def plain(self, times: int, scale: float, flag: bool, text: str, number: float = 1.5) -> str:
        return f"{times} {scale} {flag} {text} {number}"

    @torch.jit.export
    def optional(self, x: Optional[Tensor], times: Optional[int] = None) -> Optional[Tensor]:
        if x is None:
            return None
        return x if times is None else x * times

    @torch.jit.export
    def lists(self, tensors: List[Tensor], whole: List[int], parts: List[float]) -> Tensor:
        return torch.stack(tensors).sum(0) * sum(whole) + sum(parts)

    @torch.jit.export
    def pair(self, given: Tuple[Tensor, int]) -> Pair:
        return Pair(given[0] - 1, given[1] + 1)

    @torch.jit.export
    def numbers(self) -> Tuple[int, int, float, bool, str, Optional[Tensor]]:
        return 7, 1 << 60, 0.5, True, "text", None

    @torch.jit.export
    def nested(self, x: Tensor) -> Dict[str, List[Tensor]]:
        return {"once": [x], "twice": [x, x + x]}

    @torch.jit.export
    def by_number(self, x: Tensor) -> Dict[int, Tensor]:
        return {1: x}

    @torch.jit.export
    def keep(self) -> Tensor:
        return self.kept

    @torch.jit.export
    def bump(self) -> None:
        self.kept.add_(1)

    @torch.jit.export
    def complex(self, x: Tensor) -> Tensor:
        return torch.complex(x, x)

    @torch.jit.export
    def raises(self, x: Tensor) -> Tensor:
        if x.size(0) > 0:
            raise ValueError("this is not wanted")
        return x


class EveryDtype(nn.Module):
    """Operations that every dtype has, and whose results are of that dtype."""

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        return x.flip(1), torch.maximum(x, x.roll(1, 1)), x + x


DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "bool": torch.bool,
}


def extremes(dtype: torch.dtype) -> Tensor:
    """Two rows of six elements, with the ends of what the dtype holds."""
    if dtype == torch.bool:
        return torch.tensor([[True, False, True, True, False, False], [False, False, True, False, True, True]])
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        rows = [[1.5, -0.0, info.max, info.tiny, -2.25, 0.1], [float("inf"), -float("inf"), 3.0, -info.max, 0.0, 1 / 3]]
        return torch.tensor(rows, dtype=torch.float64).to(dtype)
    info = torch.iinfo(dtype)
    rows = [[1, 0, info.max, info.min, 2, 100], [info.max - 1, info.min + 1, 5, 6, 7, 8]]
    return torch.tensor(rows, dtype=dtype)


def encoded(tensor: Tensor) -> str:
    return base64.b64encode(bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist())).decode()


def reference(module: nn.Module) -> dict:
    """What PyTorch makes of the extremes of each dtype: bytes, row after row."""
    results = {}
    for name, dtype in DTYPES.items():
        x = extremes(dtype)
        results[name] = {"input": encoded(x), "outputs": [encoded(output) for output in module(x)]}
    return results


def save(module: nn.Module, file: str) -> None:
    torch.jit.script(module.eval()).save(str(HERE / file))


save(Lab(), "lab/lab.pt")
save(Lab(), "parts/parts.pt")
save(Shapes(), "shapes/shapes.pt")
save(Picture(), "picture/picture.pt")
save(Detector(), "page/detector.pt")
save(Meter(), "meter/meter.pt")
save(Hungry(), "hungry/hungry.pt")
save(Methods(), "methods.pt")
save(EveryDtype(), "dtypes.pt")
(HERE / "dtypes.json").write_text(json.dumps(reference(EveryDtype()), indent=1) + "\n")
