"""Writes test/data/media/: small images of every supported kind, and their pixels as decoded by Pillow.

    pip install pillow==13.0.0 numpy && python test/data/media.py

media.test.ts compares `Image.pixels()` with expected.jsonl: one case a line, `data` is base64 of the zlib-compressed
values in "hwc" order.
"""
import base64
import json
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

here = Path(__file__).parent / "media"
here.mkdir(exist_ok=True)
width, height = 40, 30
filters = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}

# A picture where decoders and filters differ: smooth shades, a disc with hard edges, and fine stripes.
y, x = np.mgrid[0:height, 0:width]
picture = np.stack([x * 255 // (width - 1), y * 255 // (height - 1), 128 + 100 * np.sin(x / 5.0) * np.cos(y / 4.0)], -1)
picture[(x - 25) ** 2 + (y - 12) ** 2 < 60] = (250, 40, 20)
picture[20:27, 3:17][:, ::2] = (10, 10, 240)
rgb = Image.fromarray(picture.astype(np.uint8))
alpha = Image.fromarray((255 * np.clip((x - 6) / 30.0, 0, 1)).astype(np.uint8))
rgba = rgb.copy()
rgba.putalpha(alpha)
upside = Image.Exif()
upside[0x0112] = 6  # turn by 90 degrees to the right

rgb.save(here / "rgb.png")
rgb.save(here / "rgb.webp", lossless=True)
rgb.save(here / "baseline.jpg", quality=92, subsampling=0)
rgb.save(here / "subsampled.jpg", quality=85, subsampling=2)
rgb.save(here / "progressive.jpg", quality=92, progressive=True)
rgb.save(here / "turned.jpg", quality=92, exif=upside)
rgb.convert("L").save(here / "grey.jpg", quality=92)
rgb.convert("CMYK").save(here / "cmyk.jpg", quality=92)
rgba.save(here / "alpha.png")
rgba.save(here / "alpha.webp", lossless=True)
rgb.convert("L").save(here / "grey.png")
rgb.convert("1").save(here / "bilevel.png")
palette = rgb.quantize(16)
palette.save(here / "palette.png", transparency=palette.getpixel((25, 12)))
deep = (picture[..., 0] * 257).astype(np.uint16)
Image.fromarray(deep).save(here / "grey16.png")
negative = ImageOps.invert(rgb)
rgb.quantize(64).save(here / "animated.gif", save_all=True, append_images=[negative.quantize(64)], duration=100)
rgb.save(here / "animated.webp", save_all=True, append_images=[negative], duration=100, lossless=True)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# A PNG whose header says 30,000 x 30,000 pixels, but whose data decompresses to 1000 bytes.
(here / "huge.png").write_bytes(
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", struct.pack(">IIBBBBB", 30000, 30000, 8, 2, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(bytes(1000)))
    + chunk(b"IEND", b"")
)


def load(name: str) -> Image.Image:
    image = ImageOps.exif_transpose(Image.open(here / name))
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGBA")
    return image.convert("RGBA")


def flatten(image: Image.Image, background) -> Image.Image:
    return Image.alpha_composite(Image.new("RGBA", image.size, (*background, 255)), image).convert("RGB")


def pixels(name, width=None, height=None, channels=3, fit="fill", filter="bilinear", background=(255, 255, 255), shortSide=None, crop=None):
    image = load(name)
    if shortSide:  # torchvision: Resize(shortSide)
        short, long = sorted(image.size)
        size = (shortSide, int(shortSide * long / short))
        width, height = size if image.width <= image.height else size[::-1]
    target = (width or image.width, height or image.height)
    resample = filters[filter]
    if fit == "contain":
        image = ImageOps.contain(image, target, resample)
        result = flatten(image, background)
        padded = Image.new("RGB", target, tuple(background))
        padded.paste(result, (round((target[0] - image.width) / 2), round((target[1] - image.height) / 2)))
        image = padded
    elif fit == "cover":  # torchvision: Resize(shorter side), CenterCrop
        if image.width * target[1] >= image.height * target[0]:
            scaled = (int(target[1] * image.width / image.height), target[1])
        else:
            scaled = (target[0], int(target[0] * image.height / image.width))
        image = image.resize(scaled, resample)
        left, top = round((scaled[0] - target[0]) / 2), round((scaled[1] - target[1]) / 2)
        image = image.crop((left, top, left + target[0], top + target[1]))
    elif target != image.size:
        image = image.resize(target, resample)
    if crop:  # torchvision: CenterCrop, but for the colour of what it pads
        wide, high = crop.values() if isinstance(crop, dict) else (crop, crop)
        if image.width < wide or image.height < high:
            padded = Image.new("RGB", (max(wide, image.width), max(high, image.height)), tuple(background))
            padded.paste(flatten(image, background), (max(0, wide - image.width) // 2, max(0, high - image.height) // 2))
            image = padded
        left, top = round((image.width - wide) / 2), round((image.height - high) / 2)
        image = image.crop((left, top, left + wide, top + high))
    if channels != 4 and image.mode == "RGBA":
        image = flatten(image, background)
    if channels == 1:
        image = image.convert("L")
    return np.asarray(image)


cases = []


def case(name, **options):
    data = pixels(name, **options)
    cases.append({
        "file": name,
        "options": options,
        "width": data.shape[1],
        "height": data.shape[0],
        "data": base64.b64encode(zlib.compress(data.tobytes(), 9)).decode(),
    })


for path in sorted(here.iterdir()):
    if path.suffix not in [".jsonl", ".f32"] and path.name != "huge.png":
        case(path.name)
# pictures.py has the filters for opaque pictures.
for filter in filters:
    case("alpha.png", width=17, height=20, filter=filter)
    case("alpha.png", width=48, height=32, filter=filter)
case("subsampled.jpg", width=12, height=9)
case("turned.jpg", width=12, height=16)
case("rgb.png", channels=1)
case("alpha.png", channels=1, background=(0, 0, 0))
case("alpha.png", background=(10, 200, 30))
case("alpha.png", channels=4)
case("alpha.png", width=20, height=15, channels=4)
case("palette.png", width=20, height=15, background=(0, 255, 0))
for fit in ["cover", "contain"]:
    case("rgb.png", width=16, height=16, fit=fit)
    case("rgb.png", width=31, height=50, fit=fit, background=(9, 8, 7))
    case("turned.jpg", width=20, height=21, fit=fit)
    case("alpha.png", width=21, height=13, fit=fit, background=(0, 0, 255))
for short, crop in [(20, 14), (21, 16), (17, dict(width=20, height=9)), (11, dict(width=21, height=16))]:
    for name in ["rgb.png", "turned.jpg"]:
        case(name, shortSide=short, crop=crop)
case("rgb.png", width=25, height=20, crop=16)

# What torchvision's ToTensor and Normalize give for each byte value, with ImageNet's mean and deviation.
values = (np.arange(256, dtype=np.float32) / np.float32(255))[None].repeat(3, 0)
mean, std = (np.array(each, np.float32)[:, None] for each in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
(here / "normalized.f32").write_bytes(((values - mean) / std).astype("<f4").tobytes())

(here / "expected.jsonl").write_text("".join(json.dumps(c) + "\n" for c in cases))
print(f"{len(cases)} cases, {sum(p.stat().st_size for p in here.iterdir())} bytes")
