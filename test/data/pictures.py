"""Pictures as other programs write them, each with the pixels that Pillow reads from it after `exif_transpose`.

    python3 pictures.py > pictures.json     # with Pillow 13.0 and numpy

A file that Pillow refuses has no pixels.
"""

import base64
import io
import json
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps

files = {}
random = np.random.default_rng(57)


def add(name, file):
    entry = {"file": base64.b64encode(file).decode()}
    try:
        image = ImageOps.exif_transpose(Image.open(io.BytesIO(file))).convert("RGBA")
        entry |= {"size": list(image.size), "pixels": base64.b64encode(zlib.compress(image.tobytes())).decode()}
    except (OSError, SyntaxError, ValueError, EOFError):
        pass
    assert name not in files, name
    files[name] = entry


def picture(width=7, height=5, channels=3):
    return random.integers(0, 256, (height, width, channels), dtype=np.uint8)


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


# BMP, written by hand: header, palette, rows.
def bmp(rows, width, height, bits, header=40, compression=0, palette=b"", colours=0, masks=b"", offset=None, top=False):
    signed = -height if top else height
    if header == 12:
        info = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", header, width, signed, 1, bits, compression, len(rows), 2835, 2835, colours, 0)
        info = info[:header].ljust(header, b"\0")
        if header >= 52:
            info = (info[:40] + masks).ljust(header, b"\0")
            masks = b""
    start = 14 + len(info) + len(masks) + len(palette)
    place = start if offset is None else offset
    return b"BM" + struct.pack("<IHHI", start + len(rows), 0, 0, place) + info + masks + palette + rows


def packed(values, bits):
    rows = b""
    for row in values:
        line = "".join(format(int(value), f"0{bits}b") for value in row)
        line = line.ljust((len(line) + 31) // 32 * 32, "0")
        rows += bytes(int(line[i : i + 8], 2) for i in range(0, len(line), 8))
    return rows


def rows_of(values, dtype):
    lines = [row.astype(dtype).tobytes() for row in values]
    return b"".join(line + b"\0" * (-len(line) % 4) for line in lines)


def palette_of(count, entry=4):
    return b"".join(bytes(random.integers(0, 256, 3, dtype=np.uint8)) + b"\0" * (entry - 3) for _ in range(count))


for bits in (1, 4, 8):
    for width in (1, 7, 9, 16):
        indices = random.integers(0, 1 << bits, (5, width))
        add(f"bmp {bits} bits, width {width}", bmp(packed(indices, bits), width, 5, bits, palette=palette_of(1 << bits)))
    indices = random.integers(0, 1 << bits, (5, 7))
    rows = packed(indices, bits)
    add(f"bmp {bits} bits, top down", bmp(rows, 7, 5, bits, palette=palette_of(1 << bits), top=True))
    add(f"bmp {bits} bits, OS/2 1", bmp(rows, 7, 5, bits, header=12, palette=palette_of(1 << bits, 3)))
    for header in (52, 56, 64, 108, 124):
        add(f"bmp {bits} bits, header {header}", bmp(rows, 7, 5, bits, header=header, palette=palette_of(1 << bits)))
    few = random.integers(0, 2, (5, 7))
    add(f"bmp {bits} bits, 2 colours", bmp(packed(few, bits), 7, 5, bits, palette=palette_of(2), colours=2))
    short = palette_of(1 << bits)
    add(f"bmp {bits} bits, palette not counted", bmp(rows, 7, 5, bits, palette=short, offset=54))
    add(f"bmp {bits} bits, cut", bmp(rows, 7, 5, bits, palette=short)[:-3])
greys = b"".join(bytes([i, i, i, 0]) for i in range(256))
add("bmp 8 bits, grey", bmp(packed(random.integers(0, 256, (5, 7)), 8), 7, 5, 8, palette=greys))
add("bmp 1 bit, black and white", bmp(packed(random.integers(0, 2, (5, 7)), 1), 7, 5, 1, palette=b"\0\0\0\0\xff\xff\xff\0"))
add("bmp 1 bit, white and black", bmp(packed(random.integers(0, 2, (5, 7)), 1), 7, 5, 1, palette=b"\xff\xff\xff\0\0\0\0\0"))
add("bmp 8 bits, index beyond the palette", bmp(packed(random.integers(0, 256, (5, 7)), 8), 7, 5, 8, palette=palette_of(16), colours=16))

for top in (False, True):
    add(f"bmp 24 bits, top down {top}", bmp(rows_of(picture().reshape(5, -1), "u1"), 7, 5, 24, top=top))
    add(f"bmp 32 bits, top down {top}", bmp(rows_of(picture(channels=4).reshape(5, -1), "u1"), 7, 5, 32, top=top))
    add(f"bmp 16 bits, top down {top}", bmp(rows_of(random.integers(0, 65536, (5, 7)), "<u2"), 7, 5, 16, top=top))
add("bmp 24 bits, OS/2 1", bmp(rows_of(picture().reshape(5, -1), "u1"), 7, 5, 24, header=12))
add("bmp 24 bits, OS/2 2", bmp(rows_of(picture().reshape(5, -1), "u1"), 7, 5, 24, header=64))
add("bmp 24 bits, cut", bmp(rows_of(picture().reshape(5, -1), "u1"), 7, 5, 24)[:-9])
for name, bits, masks in (
    ("565", 16, (0xF800, 0x7E0, 0x1F, 0)),
    ("555", 16, (0x7C00, 0x3E0, 0x1F, 0)),
    ("BGRX", 32, (0xFF0000, 0xFF00, 0xFF, 0)),
    ("XBGR", 32, (0xFF000000, 0xFF0000, 0xFF00, 0)),
    ("BGXR", 32, (0xFF000000, 0xFF00, 0xFF, 0)),
    ("ABGR", 32, (0xFF000000, 0xFF0000, 0xFF00, 0xFF)),
    ("RGBA", 32, (0xFF, 0xFF00, 0xFF0000, 0xFF000000)),
    ("BGRA", 32, (0xFF0000, 0xFF00, 0xFF, 0xFF000000)),
    ("zero", 32, (0, 0, 0, 0)),
):
    words = random.integers(0, 1 << bits, (5, 7), dtype=np.uint64)
    rows = rows_of(words, "<u2" if bits == 16 else "<u4")
    if masks[3] == 0 and name != "zero":
        add(f"bmp masks {name}, header 40", bmp(rows, 7, 5, bits, compression=3, masks=struct.pack("<III", *masks[:3])))
        add(f"bmp masks {name}, header 52", bmp(rows, 7, 5, bits, header=52, compression=3, masks=struct.pack("<III", *masks[:3])))
    for header in (56, 108, 124):
        add(f"bmp masks {name}, header {header}", bmp(rows, 7, 5, bits, header=header, compression=3, masks=struct.pack("<IIII", *masks)))

colours = palette_of(256)
runs = bytes([3, 9, 4, 200]) + bytes([0, 5]) + bytes([1, 2, 3, 4, 5, 0]) + bytes([2, 7, 0, 0])
rle8 = runs + bytes([7, 77, 0, 0]) + bytes([2, 5, 0, 2, 3, 1, 1, 6, 0, 0]) + bytes([7, 8, 0, 1])
add("bmp RLE8", bmp(rle8, 7, 5, 8, compression=1, palette=colours))
add("bmp RLE8, exact", bmp(bytes([7, 1, 0, 0, 7, 2, 0, 0, 7, 3, 0, 0, 7, 4, 0, 0, 7, 5, 0, 1]), 7, 5, 8, compression=1, palette=colours))
add("bmp RLE8, run beyond the row", bmp(bytes([9, 1, 0, 0] + [7, 2, 0, 0] * 3 + [7, 3, 0, 1]), 7, 5, 8, compression=1, palette=colours))
add("bmp RLE8, cut", bmp(bytes([7, 1, 0, 0, 7]), 7, 5, 8, compression=1, palette=colours))
rle4 = bytes([7, 0x5A, 0, 0]) + bytes([0, 7, 0x12, 0x34, 0x56, 0x70, 0, 0]) + bytes([3, 0x21, 4, 0xF0, 0, 0]) + bytes([7, 0x11, 0, 0, 7, 0xEE, 0, 1])
add("bmp RLE4", bmp(rle4, 7, 5, 4, compression=2, palette=palette_of(16)))
for mode in ("1", "L", "P", "RGB", "RGBA"):
    add(f"bmp Pillow {mode}", saved(Image.fromarray(picture(9, 6)).convert(mode), "BMP"))


# GIF, written by hand.
def lzw(indices, bits):
    clear, end = 1 << bits, (1 << bits) + 1
    out, buffer, count = bytearray(), 0, 0
    width, table = bits + 1, {bytes([i]): i for i in range(1 << bits)}

    def put(code):
        nonlocal buffer, count
        buffer |= code << count
        count += width
        while count >= 8:
            out.append(buffer & 255)
            buffer >>= 8
            count -= 8

    put(clear)
    known, now = end + 1, b""
    for each in indices:
        longer = now + bytes([each])
        if longer in table:
            now = longer
            continue
        put(table[now])
        if known < 4096:
            table[longer] = known
            known += 1
            if known > 1 << width and width < 12:
                width += 1
        now = bytes([each])
    put(table[now])
    known += 1
    if known > 1 << width and width < 12:
        width += 1
    put(end)
    if count:
        out.append(buffer & 255)
    return bytes(out)


def blocks(data, size=255):
    return b"".join(bytes([len(data[i : i + size])]) + data[i : i + size] for i in range(0, len(data), size)) + b"\0"


def gif(indices, screen=None, at=(0, 0), palette=None, local=None, transparent=None, interlaced=False, bits=4, block=255,
        extensions=b"", version=b"GIF89a", cut=0, behind=b";"):
    height, width = indices.shape
    wide, high = screen or (width + at[0], height + at[1])
    flags = 0 if palette is None else 0x80 | (len(palette) // 3).bit_length() - 2
    file = version + struct.pack("<HHBBB", wide, high, flags, 0, 0) + (palette or b"") + extensions
    if transparent is not None:
        file += b"!\xf9\x04" + bytes([1, 0, 0, transparent]) + b"\0"
    flags = (0 if local is None else 0x80 | (len(local) // 3).bit_length() - 2) | (0x40 if interlaced else 0)
    rows = np.concatenate([indices[0::8], indices[4::8], indices[2::4], indices[1::2]]) if interlaced else indices
    data = lzw(rows.ravel().tolist(), bits)
    data = data[: len(data) - cut]
    return file + b"," + struct.pack("<HHHHB", *at, width, height, flags) + (local or b"") + bytes([bits]) + blocks(data, block) + behind


sixteen, other = (palette_of(16, 3) for _ in range(2))
small = random.integers(0, 16, (8, 8))
for width, height in ((1, 1), (8, 8), (13, 7), (40, 30)):
    add(f"gif {width} x {height}", gif(random.integers(0, 16, (height, width)), palette=sixteen))
    add(f"gif {width} x {height}, interlaced", gif(random.integers(0, 16, (height, width)), palette=sixteen, interlaced=True))
add("gif in a screen", gif(small, screen=(20, 20), at=(6, 6), palette=sixteen))
add("gif in a screen, transparent", gif(small, screen=(20, 20), at=(6, 6), palette=sixteen, transparent=3))
add("gif in a screen, own palette", gif(small, screen=(20, 20), at=(6, 6), palette=sixteen, local=other))
add("gif in a screen, own palette, transparent", gif(small, screen=(20, 20), at=(2, 9), palette=sixteen, local=other, transparent=0))
add("gif own palette only", gif(small, local=other))
add("gif own palette only, in a screen", gif(small, screen=(9, 12), local=other))
add("gif no palette", gif(small))
add("gif no palette, in a screen", gif(small, screen=(9, 12)))
add("gif grey palette", gif(small, palette=bytes(i for each in range(16) for i in (each, each, each))))
add("gif partly outside", gif(small, screen=(10, 10), at=(6, 6), palette=sixteen))
add("gif screen without size", gif(small, screen=(0, 0), palette=sixteen))
add("gif transparent", gif(small, palette=sixteen, transparent=5))
add("gif transparent beyond the palette", gif(small, palette=sixteen, transparent=200))
add("gif all transparent", gif(np.full((4, 4), 2), palette=sixteen, transparent=2))
add("gif 87a", gif(small, palette=sixteen, version=b"GIF87a"))
add("gif index beyond the palette", gif(small, palette=palette_of(4, 3)))
add("gif 256 colours", gif(random.integers(0, 256, (40, 30)), palette=palette_of(256, 3), bits=8))
add("gif 256 colours, many codes", gif(random.integers(0, 256, (90, 80)), palette=palette_of(256, 3), bits=8))
add("gif runs", gif(np.repeat(random.integers(0, 2, (30, 6)), 9, axis=1), palette=palette_of(2, 3), bits=2))
add("gif all the same", gif(np.zeros((64, 64), int), palette=sixteen))
add("gif 2 colours", gif(random.integers(0, 2, (9, 9)), palette=palette_of(2, 3), bits=1 + 1))
add("gif small blocks", gif(small, palette=sixteen, block=3))
add("gif comment", gif(small, palette=sixteen, extensions=b"!\xfe" + blocks(b"a comment" * 40)))
add("gif loop", gif(small, palette=sixteen, extensions=b"!\xff\x0bNETSCAPE2.0\x03\x01\0\0\0"))
add("gif text block", gif(small, palette=sixteen, extensions=b"!\x01\x0c" + b"\0" * 12 + blocks(b"text")))
add("gif without trailer", gif(small, palette=sixteen, behind=b""))
add("gif bytes behind", gif(small, palette=sixteen, behind=b";garbage"))
add("gif cut", gif(small, palette=sixteen, cut=9))
add("gif cut in the middle", gif(random.integers(0, 16, (40, 30)), palette=sixteen)[:-300])
first, second = (Image.fromarray(picture(9, 6)).convert("P") for _ in range(2))
add("gif Pillow, two frames", saved(first, "GIF", save_all=True, append_images=[second]))
add("gif Pillow, RGBA", saved(Image.fromarray(picture(9, 6, 4)), "GIF"))


# Orientation in PNG, WebP and JPEG.
def exif(value, order="<", kind="H", more=()):
    types = {"B": 1, "H": 3, "I": 4, "h": 8, "i": 9, "Q": 16}
    entries = sorted([(0x010E, 2, 4, b"abc\0"), (0x0112, types[kind], 1, struct.pack(order + kind, value)[:4].ljust(4, b"\0")), *more])
    body = struct.pack(order + "H", len(entries))
    for tag, type_, count, data in entries:
        body += struct.pack(order + "HHI", tag, type_, count) + data
    return (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8) + body + struct.pack(order + "I", 0)


def xmp(value, form="="):
    inside = f'<rdf:Description tiff:Orientation="{value}"/>' if form == "=" else f"<rdf:Description><tiff:Orientation>{value}</tiff:Orientation></rdf:Description>"
    return f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF>{inside}</rdf:RDF></x:xmpmeta>'.encode()


def chunk(tag, data):
    return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))


def png(before=b"", after=b"", mode="RGB"):
    file = saved(Image.fromarray(picture(channels=len(mode))), "PNG")
    data = file.index(b"IDAT") - 4
    end = file.index(b"IEND") - 4
    return file[:data] + before + file[data:end] + after + file[end:]


for value in range(0, 10):
    add(f"png eXIf {value}", png(chunk(b"eXIf", exif(value))))
    add(f"png eXIf {value}, big-endian", png(chunk(b"eXIf", exif(value, ">"))))
add("png eXIf after the pixels", png(after=chunk(b"eXIf", exif(6))))
add("png eXIf after the pixels, big-endian", png(after=chunk(b"eXIf", exif(8, ">"))))
add("png eXIf as LONG", png(chunk(b"eXIf", exif(6, kind="I"))))
add("png eXIf as LONG, big-endian", png(chunk(b"eXIf", exif(6, ">", kind="I"))))
add("png eXIf as signed SHORT", png(chunk(b"eXIf", exif(6, kind="h"))))
add("png eXIf with its mark", png(chunk(b"eXIf", b"Exif\0\0" + exif(6))))
add("png eXIf with alpha", png(chunk(b"eXIf", exif(5)), mode="RGBA"))
add("png XMP", png(chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp(6))))
add("png XMP as element", png(chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp(8, ">"))))
add("png XMP compressed", png(chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(xmp(3)))))
add("png XMP and eXIf", png(chunk(b"eXIf", exif(6)) + chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp(3))))
profile = b"\nexif\n%8d\n" % len(exif(6)) + exif(6).hex().encode()
add("png profile", png(chunk(b"tEXt", b"Raw profile type exif\0" + profile)))
add("png profile compressed", png(chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(profile))))


def riff(chunks):
    body = b"".join(tag + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2) for tag, data in chunks)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def webp_chunks(width, height, lossless=True, channels=3):
    file = saved(Image.fromarray(picture(width, height, channels)), "WEBP", lossless=lossless, exact=True)
    at, chunks = 12, []
    while at < len(file):
        length = struct.unpack("<I", file[at + 4 : at + 8])[0]
        chunks.append((file[at : at + 4], file[at + 8 : at + 8 + length]))
        at += 8 + length + length % 2
    return [each for each in chunks if each[0] != b"VP8X"]


def size3(value):
    return struct.pack("<I", value)[:3]


def webp(metadata, flags, lossless=True, width=7, height=5, channels=3):
    flags |= 0x10 if channels == 4 else 0
    header = bytes([flags, 0, 0, 0]) + size3(width - 1) + size3(height - 1)
    return riff([(b"VP8X", header), *webp_chunks(width, height, lossless, channels), *metadata])


for value in range(1, 9):
    add(f"webp EXIF {value}", webp([(b"EXIF", exif(value))], 8))
    add(f"webp EXIF {value}, big-endian", webp([(b"EXIF", exif(value, ">"))], 8))
add("webp EXIF with its mark", webp([(b"EXIF", b"Exif\0\0" + exif(6, ">"))], 8))
add("webp EXIF with alpha", webp([(b"EXIF", exif(6))], 8, channels=4))
add("webp EXIF without its flag", webp([(b"EXIF", exif(6))], 0))
add("webp XMP", webp([(b"XMP ", xmp(6))], 4))
add("webp EXIF as LONG", webp([(b"EXIF", exif(6, kind="I"))], 8))


def frame(x, y, width, height, channels=3, flags=0):
    inside = b"".join(tag + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2) for tag, data in webp_chunks(width, height, True, channels))
    return b"ANMF", size3(x // 2) + size3(y // 2) + size3(width - 1) + size3(height - 1) + size3(100) + bytes([flags]) + inside


def animation(frames, width=20, height=16, flags=0, metadata=(), background=b"\x10\x80\xf0\xff"):
    header = bytes([0x02 | flags, 0, 0, 0]) + size3(width - 1) + size3(height - 1)
    return riff([(b"VP8X", header), (b"ANIM", background + b"\0\0"), *frames, *metadata])


add("webp animation", animation([frame(0, 0, 20, 16), frame(2, 2, 8, 8)]))
add("webp animation, frame with an offset", animation([frame(6, 4, 8, 8), frame(0, 0, 20, 16)]))
add("webp animation, frame with an offset and alpha", animation([frame(6, 4, 8, 8, 4), frame(0, 0, 20, 16, 4)], flags=0x10))
add("webp animation, opaque frame on a transparent canvas", animation([frame(6, 4, 8, 8), frame(0, 0, 20, 16)], flags=0x10))
add("webp animation, one frame", animation([frame(2, 2, 8, 8)]))
for value in (3, 6, 8):
    add(f"webp animation, EXIF {value}", animation([frame(6, 4, 8, 8), frame(0, 0, 8, 8)], flags=8, metadata=[(b"EXIF", exif(value))]))
add("webp animation, XMP", animation([frame(6, 4, 8, 8)], flags=4, metadata=[(b"XMP ", xmp(6))]))
add("webp animation, frame outside", animation([frame(16, 12, 8, 8), frame(0, 0, 8, 8)]))


# Blocks of one colour, so that decoders agree on every pixel.
def in_blocks(*channels):
    return np.kron(random.integers(0, 256, (2, 3, *channels), dtype=np.uint8), np.ones((8, 8, *(1 for _ in channels)), np.uint8))


def jpeg(*segments):
    file = saved(Image.fromarray(in_blocks()), "JPEG", quality=100)
    inside = b"".join(b"\xff\xe1" + struct.pack(">H", len(each) + 2) + each for each in segments)
    return file[:2] + inside + file[2:]


mark = b"http://ns.adobe.com/xap/1.0/\0"
for value in range(1, 9):
    add(f"jpeg Exif {value}", jpeg(b"Exif\0\0" + exif(value)))
    add(f"jpeg Exif {value}, big-endian", jpeg(b"Exif\0\0" + exif(value, ">")))
    add(f"jpeg XMP {value}", jpeg(mark + xmp(value)))
add("jpeg Exif as LONG", jpeg(b"Exif\0\0" + exif(6, kind="I")))
add("jpeg Exif as LONG, big-endian", jpeg(b"Exif\0\0" + exif(6, ">", kind="I")))
add("jpeg XMP as element", jpeg(mark + xmp(8, ">")))
add("jpeg XMP and Exif", jpeg(b"Exif\0\0" + exif(3), mark + xmp(6)))
add("jpeg XMP and Exif without orientation", jpeg(b"Exif\0\0" + b"II*\0\x08\0\0\0\0\0\0\0\0\0", mark + xmp(6)))
add("jpeg Exif in two segments", jpeg(b"Exif\0\0" + exif(6)[:14], b"Exif\0\0" + exif(6)[14:]))
add("jpeg Exif of two marks", jpeg(b"Exif\0\0Exif\0\0" + exif(6)))

# Sizes in which Pillow 13 scales horizontally or vertically first, and pixels between two of nearest neighbours.
resized = []
filters = {"nearest": Image.NEAREST, "box": Image.BOX, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS}
for i in range(100):
    name = list(filters)[i % 5]
    width, height, to_width, to_height = (int(each) for each in random.integers(1, 36, 4))
    if i % 2 and height > 9 and width > 2:
        # Around the number of lost rows and columns at which the order changes.
        to_width = int(random.integers(max(1, width - height // 2 + 2), width))
        to_height = max(1, height - 2 * (width - to_width) + int(random.integers(-1, 2)))
    image = Image.fromarray(picture(width, height, 3 + i % 3 // 2))
    pixels = image.resize((to_width, to_height), filters[name]).convert("RGBA").tobytes()
    resized.append({
        "file": base64.b64encode(saved(image, "PNG")).decode(),
        "name": f"{width} x {height} to {to_width} x {to_height}, {name}",
        "filter": name,
        "size": [to_width, to_height],
        "pixels": base64.b64encode(zlib.compress(pixels)).decode(),
    })


# PNGs of 16 bits, which Pillow cannot write, with transparency of single colours, and with two frames.
def png16(kind, channels, *chunks):
    pixels = random.integers(0, 65536, (5, 7, channels)).astype(">u2")
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 7, 5, 16, kind, 0, 0, 0))
    rows = chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row.tobytes() for row in pixels)))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(chunks) + rows + chunk(b"IEND", b"")


add("png 16 bits", png16(2, 3))
add("png 16 bits, alpha", png16(6, 4))
add("png 16 bits, grey and alpha", png16(4, 2))
eight = Image.fromarray(picture()).quantize(8)
add("png palette, shades", saved(eight, "PNG", transparency=bytes(range(0, 256, 32))))
add("png palette, frames", saved(eight, "PNG", save_all=True, append_images=[Image.new("P", (7, 5))]))
pixels = picture()
key = tuple(int(each) for each in pixels[2, 3])
add("png colour key", saved(Image.fromarray(pixels), "PNG", transparency=key))
add("jpeg CMYK, progressive", saved(Image.fromarray(in_blocks(4), "CMYK"), "JPEG", quality=100, progressive=True))

print(json.dumps({"files": files, "resized": resized}))
