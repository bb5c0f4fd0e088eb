"""Trains the digit reader and writes digits.pt2, heldout.json and samples/. Two minutes on one core.

    pip install torch==2.13.0 scikit-learn==1.9.1 pillow==13.0.0
    python train.py

Data: the 1,797 handwritten digits of 8x8 pixels that scikit-learn ships (UCI "Optical Recognition of Handwritten Digits").
A fifth is held out and never trained on. The rest is redrawn many times (turned, slanted, thicker, thinner, sharper), so that
digits drawn with a pen at another size are read as well.
"""
import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional as F

import samples

here = Path(__file__).parent
seed = 20
side, inner = 20, 16  # pixels: width and height of the network's input, longer side of the digit in it
copies, epochs = 24, 8  # redrawn versions of each digit, passes over all of them


# --- Normalization. canonicalize.ts has the same steps, and a test compares the results for every sample. --------------------


def canonicalize(grey: np.ndarray) -> np.ndarray:
    """Scales a grey image (uint8), dark on light or light on dark, to `side` x `side`: ink 1 on paper 0, cropped and centred."""
    grey = grey.astype(np.float64)
    paper = np.sort(np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]]))[grey.shape[0] + grey.shape[1]]
    lighter, darker = grey.max() - paper, paper - grey.min()
    contrast = max(lighter, darker)
    canvas = np.zeros((side, side), np.float32)
    if contrast < 16:
        return canvas
    ink = np.clip((grey - paper) * (1 if lighter > darker else -1) / contrast, 0, 1)
    rows, columns = np.flatnonzero((ink > 0.3).any(1)), np.flatnonzero((ink > 0.3).any(0))
    ink = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    scale = inner / max(ink.shape)
    height, width = (max(1, int(np.floor(size * scale + 0.5))) for size in ink.shape)
    ink = weights(ink.shape[0], height) @ ink @ weights(ink.shape[1], width).T
    top, left = (side - height) // 2, (side - width) // 2
    canvas[top : top + height, left : left + width] = ink / ink.max()
    return canvas


def weights(source: int, target: int) -> np.ndarray:
    """Weights [target, source] of a triangle filter, as wide as two target pixels when it shrinks. Each row has the sum 1."""
    scale = source / target
    centers = (np.arange(target)[:, None] + 0.5) * scale
    result = np.clip(1 - np.abs(np.arange(source) + 0.5 - centers) / max(1, scale), 0, None)
    return result / result.sum(1, keepdims=True)


# --- Training ----------------------------------------------------------------------------------------------------------------


class Digits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 24, 5, padding=2, stride=2), nn.BatchNorm2d(24), nn.ReLU(),
            nn.Conv2d(24, 40, 3, padding=1), nn.BatchNorm2d(40), nn.ReLU(),
            nn.Conv2d(40, 64, 3, padding=1, stride=2), nn.BatchNorm2d(64), nn.ReLU(),
        )  # fmt: skip
        self.dropout = nn.Dropout(0.4)
        self.classes = nn.Linear(64 * 5 * 5, 10)

    def logits(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.classes(self.dropout(self.features(pixels.unsqueeze(1)).flatten(1)))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """[N, 20, 20] canonical pixels to [N, 10] probabilities."""
        return self.logits(pixels).softmax(1)


def redraw(digits: torch.Tensor) -> torch.Tensor:
    """Redraws images [N, 8, 8] with values 0 to 1 at 48 x 48: rotated, slanted, stretched, with another pen."""
    count = len(digits)

    def spread(low: float, high: float) -> torch.Tensor:
        return torch.empty(count).uniform_(low, high)

    angle, slant = spread(-0.22, 0.22), spread(-0.25, 0.25)
    across, down = 1.45 * spread(0.85, 1.2), 1.45 * spread(0.85, 1.2)
    turn = torch.stack([
        torch.stack([across * angle.cos(), -down * (angle - slant).sin(), spread(-0.1, 0.1)], 1),
        torch.stack([across * angle.sin(), down * angle.cos(), spread(-0.1, 0.1)], 1),
    ], 1)  # fmt: skip
    smooth = F.interpolate(digits[:, None], size=(48, 48), mode="bicubic", align_corners=False)
    drawn = F.grid_sample(smooth, F.affine_grid(turn, [count, 1, 48, 48], align_corners=False), align_corners=False)
    # Thresholds the soft strokes to imitate another pen: a low threshold gives broad strokes, a high threshold gives
    # fine strokes.
    level, sharpness = spread(0.2, 0.62), spread(4, 25)
    pen = torch.sigmoid((drawn - level.view(-1, 1, 1, 1)) * sharpness.view(-1, 1, 1, 1))
    soft = (torch.rand(count) < 0.25).view(-1, 1, 1, 1)
    return torch.where(soft, drawn.clamp(0, 1), pen)[:, 0]


def canonical(images: np.ndarray | list[np.ndarray]) -> torch.Tensor:
    return torch.from_numpy(np.stack([canonicalize(image) for image in images]))


def to_bytes(images: torch.Tensor) -> np.ndarray:
    return (images * 255).round().to(torch.uint8).numpy()


def train(images: np.ndarray, labels: np.ndarray) -> Digits:
    """`images`: [N, 8, 8] of 0 to 16."""
    torch.manual_seed(seed)
    digits = torch.from_numpy(images / 16).float()
    drawn = [canonical(to_bytes(redraw(digits))) for _ in range(copies)]
    plain = canonical(to_bytes(digits))
    inputs = torch.cat(drawn + [plain] * (copies // 4))
    targets = torch.from_numpy(labels).repeat(copies + copies // 4)
    model = Digits()
    steps = epochs * (len(inputs) // 128)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, steps)
    for step in range(steps):
        if step % (len(inputs) // 128) == 0:
            order = torch.randperm(len(inputs))
        batch = order[step % (len(inputs) // 128) * 128 :][:128]
        loss = F.cross_entropy(model.logits(inputs[batch]), targets[batch], label_smoothing=0.02)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


def read(model: Digits, images: list[np.ndarray]) -> np.ndarray:
    with torch.inference_mode():
        return model(canonical(images)).argmax(1).numpy()


def load_sample(path: Path) -> np.ndarray:
    """A sample in grey, at most 128 pixels wide and high, as in grey-picture.ts."""
    image = Image.open(path).convert("RGB").convert("L")
    scale = min(1, 128 / max(image.size))
    width, height = (max(1, round(size * scale)) for size in image.size)
    return np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))


def hexadecimal(image: np.ndarray) -> str:
    """Normalized pixels, one byte each, for comparison with canonicalize.ts."""
    return (canonicalize(image) * 255).round().astype(np.uint8).tobytes().hex()


def save(model: Digits, path: Path) -> None:
    """Exports the program without source lines, which contain paths of this machine."""
    program = torch.export.export(model, (torch.zeros(2, side, side),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    torch.export.save(program, path)


def main() -> None:
    torch.set_num_threads(1)  # several threads may add in another order, which gives other weights
    data = load_digits()
    images, held_out, labels, held_out_labels = train_test_split(
        data.images, data.target, test_size=0.2, random_state=0, stratify=data.target
    )
    model = train(images, labels)
    real = list(to_bytes(torch.from_numpy(held_out / 16)))
    answers = read(model, real)
    print(f"held-out accuracy: {(answers == held_out_labels).mean():.4f} of {len(real)} digits")
    save(model, here / "digits.pt2")

    eight = int(np.flatnonzero(held_out_labels == 8)[0])
    paths = samples.write(real[eight], 8)
    drawn = [load_sample(path) for path in paths]
    for path, answer in zip(paths, read(model, drawn)):
        print(f"{path.relative_to(here)} is read as {answer}")

    digits = ["".join("0123456789abcdefg"[int(value)] for value in image.ravel()) for image in held_out]
    content = {
        "labels": "".join(str(label) for label in held_out_labels),
        "pixels": digits,
        "python": {
            "answers": "".join(str(answer) for answer in answers),
            "heldout": [hexadecimal(image) for image in real[:4]],
            "samples": {path.name: hexadecimal(image) for path, image in zip(paths, drawn)},
        },
    }
    (here / "heldout.json").write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
