"""Draws the pictures in samples/: digits along curves chosen by hand, and one real held-out digit.

train.py calls `write`. `python samples.py` draws the pictures again, except the real digit.
"""
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

here = Path(__file__).parent
finer = 4  # pictures are drawn this many times larger and then shrunk, which makes smooth edges

# Points on the pen's path, one list per stroke, in pixels of the final picture.
drawings = {
    "3": dict(size=(280, 280), pen=17, ink=(0, 0, 0), strokes=[
        [(92, 70), (120, 46), (160, 44), (182, 72), (168, 106), (128, 126), (176, 138), (196, 176), (172, 218), (126, 232), (84, 206)],
    ]),
    "4": dict(size=(320, 240), pen=9, ink=(20, 30, 60), strokes=[
        [(196, 34), (172, 78), (140, 128), (136, 136), (180, 134), (236, 130)],
        [(214, 84), (210, 130), (204, 176), (202, 208)],
    ]),
    "7": dict(size=(280, 280), pen=24, ink=(0, 0, 0), strokes=[
        [(40, 96), (84, 90), (150, 88), (152, 92), (128, 136), (108, 184), (96, 236)],
    ]),
    "9": dict(size=(180, 260), pen=13, ink=(70, 70, 70), strokes=[
        [(118, 62), (84, 48), (52, 74), (54, 112), (86, 122), (114, 98), (120, 62), (120, 110), (110, 166), (94, 216)],
    ]),
}  # fmt: skip


def curve(points: list[tuple[float, float]], steps: int = 24) -> np.ndarray:
    """A uniform Catmull-Rom spline through the points."""
    p = np.array([points[0], *points, points[-1]], float)
    t = np.linspace(0, 1, steps, endpoint=False)[:, None]
    pieces = [
        0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3)
        for a, b, c, d in zip(p, p[1:], p[2:], p[3:])
    ]
    return np.concatenate([*pieces, p[-1:]])


def draw(size, pen, ink, strokes) -> Image.Image:
    image = Image.new("RGB", (size[0] * finer, size[1] * finer), "white")
    canvas = ImageDraw.Draw(image)
    for stroke in strokes:
        points = curve(stroke)
        for i, (x, y) in enumerate(points * finer):
            # A pen presses a little harder in the middle of a stroke.
            radius = finer * pen / 2 * (0.85 + 0.3 * np.sin(np.pi * i / len(points)))
            canvas.ellipse([x - radius, y - radius, x + radius, y + radius], fill=ink)
    return image.resize(size, Image.Resampling.LANCZOS)


def write(real: np.ndarray | None, digit: int = 0) -> list[Path]:
    """Writes the drawings into samples/ and, unless it is None, the real digit [8, 8] (uint8), enlarged. Returns all paths there."""
    folder = here / "samples"
    folder.mkdir(exist_ok=True)
    for name, drawing in drawings.items():
        draw(**drawing).quantize(32).save(folder / f"{name}.png", optimize=True)
    if real is not None:
        enlarged = Image.fromarray(real).resize((96, 96), Image.Resampling.NEAREST)
        enlarged.save(folder / f"uci-{digit}.png", optimize=True)
    return sorted(folder.glob("*.png"))


if __name__ == "__main__":
    write(None)
