"""Trains the network and writes upscale.pt2 and samples/. Five minutes on one core.

    pip install torch==2.13.0 scikit-image==0.26.0 pillow==13.0.0
    python train.py

Data: photographs of scikit-image whose licence its documentation names. Four are held out and never trained on. A small picture
is a large one, halved by Pillow's bicubic filter (with antialias) and rounded to bytes.
"""
import time
from pathlib import Path

import numpy as np
import skimage
import torch
from PIL import Image
from torch.nn import functional as F

from export import export
from network import Upscale

here = Path(__file__).parent
photographs = Path(skimage.__file__).parent / "data"
held_out = ["astronaut.png", "camera.png", "chelsea.png", "coffee.png"]
trained_on = [
    "brick.png", "cell.png", "clock_motion.png", "coins.png", "grass.png", "gravel.png", "hubble_deep_field.jpg", "ihc.png",
    "retina.jpg", "rocket.jpg", "text.png",
]  # fmt: skip
samples = {
    "camera.png": dict(box=(180, 60, 300, 180), optimize=True),
    "chelsea.png": dict(box=(130, 70, 254, 158), optimize=True),
    "coffee.jpg": dict(box=(100, 60, 340, 240), quality=90),
}
seed = 20
steps, batch, patch = 4000, 16, 32  # a patch has `patch` x `patch` pixels of the small picture
grey = np.array([0.299, 0.587, 0.114], np.float32)


def load(name: str) -> Image.Image:
    """A photograph as RGB. An odd last row or column is cut off."""
    return even(Image.open(photographs / name).convert("RGB"))


def even(image: Image.Image) -> Image.Image:
    return image.crop((0, 0, image.width // 2 * 2, image.height // 2 * 2))


def resize(image: Image.Image, scale: float) -> Image.Image:
    return image.resize((int(image.width * scale), int(image.height * scale)), Image.Resampling.BICUBIC)


def luma(image: Image.Image | np.ndarray) -> np.ndarray:
    return np.asarray(image, np.float32) @ grey


# --- Quality -----------------------------------------------------------------------------------------------------------------


def psnr(image: Image.Image | np.ndarray, original: Image.Image) -> float:
    """PSNR in dB of the luma (0.299 R + 0.587 G + 0.114 B, 0 to 255), without a border of four pixels."""
    error = (luma(image) - luma(original))[4:-4, 4:-4]
    return float(10 * np.log10(255**2 / np.mean(error.astype(np.float64) ** 2)))


def report(model: Upscale) -> None:
    rows = []
    for name in held_out:
        original = load(name)
        small = resize(original, 0.5)
        with torch.inference_mode():
            enlarged = model(torch.from_numpy(np.array(small))[None])[0].numpy()
        rows.append((name.split(".")[0], psnr(resize(small, 2), original), psnr(enlarged, original)))
    rows.append(("mean", *np.mean([row[1:] for row in rows], axis=0)))
    for name, bicubic, ours in rows:
        print(f"| {name:9} | {bicubic:.2f} | {ours:.2f} | +{ours - bicubic:.2f} |", flush=True)


# --- Training ----------------------------------------------------------------------------------------------------------------


class Patches:
    """Training pairs: a patch of a small picture with the network's margin, and the detail that bicubic interpolation misses."""

    def __init__(self, model: Upscale) -> None:
        self.random = np.random.default_rng(seed)
        self.margin = model.margin
        self.bicubic = model.bicubic[:4, :1]
        originals = [load(name) for name in trained_on]
        # Photographs shrunk to 0.7 and 0.5 give patches with finer detail.
        larges = [image if scale == 1 else even(resize(image, scale)) for image in originals for scale in (1, 0.7, 0.5)]
        larges = [image for image in larges if min(image.size) // 2 >= patch + 2 * self.margin]
        self.pairs = [tuple(torch.from_numpy(luma(image) / 255) for image in (resize(large, 0.5), large)) for large in larges]
        sides = np.array([small.numel() ** 0.5 for small, _ in self.pairs])
        self.chances = sides / sides.sum()

    def draw(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Patches [batch, 1, patch + 2 margin, patch + 2 margin] and their missing detail [batch, 4, patch, patch].

        The harder half of twice as many random pairs.
        """
        chosen = self.random.choice(len(self.pairs), 2 * batch, p=self.chances)
        smalls, larges = (torch.stack(patches)[:, None] for patches in zip(*map(self.cut, chosen)))
        beyond = self.margin - 2
        smooth = F.conv2d(smalls[:, :, beyond:-beyond, beyond:-beyond], self.bicubic)
        missing = F.pixel_unshuffle(larges, 2) - smooth
        hard = missing.square().mean((1, 2, 3)).topk(batch).indices
        return smalls[hard], missing[hard]

    def cut(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """A patch and its original, rotated and flipped at random."""
        small, large = self.pairs[index]
        side = patch + 2 * self.margin
        y, x = (int(self.random.integers(size - side + 1)) for size in small.shape)
        top, left = 2 * (y + self.margin), 2 * (x + self.margin)
        pair = small[y : y + side, x : x + side], large[top : top + 2 * patch, left : left + 2 * patch]
        turns, flips = int(self.random.integers(4)), [0] if self.random.random() < 0.5 else []
        return tuple(torch.rot90(part, turns).flip(flips) for part in pair)


def train() -> Upscale:
    torch.manual_seed(seed)
    # With channels last, the layout of the input, convolutions take half the time.
    model = Upscale().to(memory_format=torch.channels_last)
    patches = Patches(model)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, steps, pct_start=0.1)
    begin, total = time.process_time(), 0.0
    for step in range(1, steps + 1):
        smalls, missing = patches.draw()
        loss = (model.detail(smalls) - missing).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        total += loss.item()
        if step % 500 == 0:
            print(f"step {step}: loss {total / 500:.5f}, {time.process_time() - begin:.0f} s", flush=True)
            report(model)
            total = 0.0
    return model.eval()


def main() -> None:
    torch.set_num_threads(1)  # several threads may add in another order, which gives other weights
    (here / "samples").mkdir(exist_ok=True)
    for name, options in samples.items():
        original = Image.open(next(photographs.glob(f"{Path(name).stem}.*")))
        original.crop(options.pop("box")).save(here / "samples" / name, **options)
    torch.export.save(export(train()), here / "upscale.pt2")


if __name__ == "__main__":
    main()
