"""Writes test/data/digits/: one handwritten seven in kinds of pictures that test/data/media lacks.

    pip install pillow==13.0.0 numpy && python test/data/digits.py

In pictures with several frames, later frames show a three. A picture with an orientation is stored rotated.
"""
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

here = Path(__file__).parent / "digits"
here.mkdir(exist_ok=True)
samples = Path(__file__).parents[2] / "examples/digits/samples"


def drawn(name: str) -> Image.Image:
    """Taller than wide, so that a rotation shows."""
    paper = Image.open(samples / name).convert("RGB").resize((48, 48), Image.Resampling.BOX)
    return paper.crop((4, 0, 44, 48))


seven, three = drawn("7.png"), drawn("3.png")
ink = Image.fromarray(255 - np.asarray(seven.convert("L")))
# Black ink on transparency. A reader must put a light background behind it: on black, nothing is visible.
cutout = Image.new("RGB", seven.size)
cutout.putalpha(ink)

seven.save(here / "plain.png")
seven.save(here / "progressive.jpg", quality=85, progressive=True)
seven.convert("CMYK").save(here / "cmyk-progressive.jpg", quality=85, progressive=True)
seven.save(here / "animated.png", save_all=True, append_images=[three], duration=100)

palette = seven.quantize(8)
shades = np.asarray(palette.getpalette()).reshape(-1, 3).sum(1)
# A palette of black only; the entries differ in alpha.
palette.putpalette([0] * 24)
palette.save(here / "palette-shades.png", transparency=bytes(255 - int(shade) // 3 for shade in shades))

exif = Image.Exif()
exif[0x0112] = 6
seven.transpose(Image.Transpose.ROTATE_90).save(here / "orientation-6.jpg", quality=80, exif=exif)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write16(name: str, color_type: int, pixels: np.ndarray, *chunks: bytes) -> None:
    """A PNG with 16 bits per channel; Pillow only writes grey ones."""
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + (row.astype(">u2") * 257).astype(">u2").tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 16, color_type, 0, 0, 0)
    parts = [chunk(b"IHDR", header), *chunks, chunk(b"IDAT", zlib.compress(rows, 9)), chunk(b"IEND", b"")]
    (here / name).write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


write16("rgb16.png", 2, np.asarray(seven))
write16("rgba16.png", 6, np.asarray(cutout))
write16("grey-alpha16.png", 4, np.stack([np.zeros_like(np.asarray(ink)), np.asarray(ink)], -1))
# A PNG whose black is transparent. The left half of the paper is black, so it is dark if a reader ignores
# transparency.
half = np.maximum(np.asarray(seven), 16)
half[:, :20][half[:, :20].min(-1) > 127] = 0
write16("rgb16-key.png", 2, half, chunk(b"tRNS", struct.pack(">HHH", 0, 0, 0)))

for path in sorted(here.iterdir()):
    print(path.name, path.stat().st_size)
