"""Arrays and sounds as other programs write them, each with the values that numpy and libsndfile read from it.

    python3 written.py > written.json     # with numpy and soundfile

A file that the reference refuses has no values.
"""

import base64
import io
import json
import struct

import numpy as np
import soundfile

files = {}


def npy(name, header, data, version=1):
    body = header.encode()
    length = struct.pack("<H" if version == 1 else "<I", len(body))
    file = b"\x93NUMPY" + bytes([version, 0]) + length + body + data
    try:
        array = np.load(io.BytesIO(file))
        # The server takes little-endian numbers only.
        values = {"shape": list(array.shape), "values": array.astype(float).ravel().tolist()}
    except ValueError:
        values = {}
    files[f"npy {name}"] = {"file": base64.b64encode(file).decode(), **values}


six = {kind: np.arange(6).astype(kind).tobytes() for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "b1")}
header = "{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}\n"
names = {
    "f2": ("<f2", "=f2", "f2", "float16", "half", "e"),
    "f4": ("<f4", "=f4", "f4", "float32", "single", "f", "<f"),
    "f8": ("<f8", "=f8", "float64", "double", "d", "float"),
    "i1": ("|i1", "<i1", ">i1", "=i1", "i1", "int8", "b"),
    "i2": ("<i2", "=i2", "int16", "h"),
    "i4": ("<i4", "=i4", "int32", "i"),
    "i8": ("<i8", "=i8", "int64", "q", "int", "l"),
    "u1": ("|u1", "<u1", ">u1", "=u1", "u1", "uint8", "B"),
    "b1": ("|b1", "<b1", "b1", "bool", "?"),
}
for kind, spellings in names.items():
    for spelling in spellings:
        npy(spelling, header.format(spelling, False, "(2, 3)"), six[kind])
for shape in ("(6,)", "(1, 6)", "(6, 1)", "(2, 3)", "(1, 2, 3)", "(3, 1, 2)", "(0, 3)", "()"):
    for order in (True, False):
        count = int(np.prod([int(each) for each in shape.strip("()").split(",") if each.strip()]))
        npy(f"{shape} fortran {order}", header.format("<f4", order, shape), six["f4"][: 4 * count])
npy("fortran 2x3x4", header.format("<i2", True, "(2, 3, 4)"), np.arange(24, dtype="<i2").tobytes())
npy("double quotes", '{"descr": "<f4", "fortran_order": False, "shape": (2, 3)}\n', six["f4"])
npy("other order", "{'shape': (2, 3), 'fortran_order': False, 'descr': '<f4'}\n", six["f4"])
npy("no spaces", "{'descr':'<f4','fortran_order':False,'shape':(2,3)}", six["f4"])
npy("many spaces", "{ 'descr' :  '<f4' , 'fortran_order' : False , 'shape' : ( 2 , 3 ) }   \n", six["f4"])
npy("line breaks", "{'descr': '<f4',\n 'fortran_order': False,\n 'shape': (2,\n 3)}\n", six["f4"])
npy("Python 2", "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }\n", six["f4"])
npy("bytes behind", header.format("<f4", False, "(2, 3)"), six["f4"] + six["f4"])
npy("version 2", header.format("<f4", False, "(2, 3)"), six["f4"], 2)
npy("version 3", header.format("<f4", False, "(2, 3)"), six["f4"], 3)
npy("cut off", header.format("<f4", False, "(2, 3)"), six["f4"][:-1])
npy("a number for a shape", header.format("<f4", False, "(6)"), six["f4"])
npy("a list for a shape", header.format("<f4", False, "[6]"), six["f4"])
npy("no order", "{'descr': '<f4', 'shape': (6,)}\n", six["f4"])

time = np.arange(30) / 8000
wave = np.stack([0.5 * np.sin(2 * np.pi * 440 * time), 0.25 * np.cos(2 * np.pi * 220 * time)], 1)


def wav(name, file):
    try:
        samples, rate = soundfile.read(io.BytesIO(file), dtype="float32", always_2d=True)
        values = {"rate": rate, "shape": list(samples.T.shape), "values": samples.T.ravel().tolist()}
    except (soundfile.LibsndfileError, RuntimeError):
        values = {}
    files[f"wav {name}"] = {"file": base64.b64encode(file).decode(), **values}


def encoded(channels=1, **options):
    file = io.BytesIO()
    soundfile.write(file, wave[:, :channels], 8000, **{"format": "WAV", "subtype": "PCM_16", **options})
    return file.getvalue()


plain = encoded()
data = plain.index(b"data")


def sized(riff, size, file=plain):
    at = file.index(b"data")
    return file[:4] + struct.pack("<I", riff) + file[8 : at + 4] + struct.pack("<I", size) + file[at + 8 :]


for size in (0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000, 0x7FFF0000, 0x80000000, 0x7FFFFFDB, 0xFFFFFFDB, 0xFFFFF000, 0x7FFFFF00):
    wav(f"size {size:#x}", sized(min(0xFFFFFFFF, size + 36), size))
    wav(f"size {size:#x}, riff 0", sized(0, size))
for subtype in ("PCM_16", "PCM_24", "PCM_32", "PCM_U8", "FLOAT", "DOUBLE", "ALAW", "ULAW"):
    for form in ("WAV", "WAVEX", "RF64"):
        for channels in (1, 2):
            wav(f"{form} {subtype} {channels}", encoded(channels, format=form, subtype=subtype))
rf64 = encoded(2, format="RF64")
wav("RF64 again", rf64)
# libsndfile does not read BW64, which is RF64 with another signature.
files["wav BW64"] = {**files.pop("wav RF64 again"), "file": base64.b64encode(b"BW64" + rf64[4:]).decode()}
list_chunk = b"LIST" + struct.pack("<I", 4) + b"INFO"
odd_chunk = b"odd " + struct.pack("<I", 3) + b"abc\0"
wav("chunks before the samples", plain[:12] + list_chunk + odd_chunk + plain[12:])
wav("chunks behind the samples", plain + list_chunk + odd_chunk)
wav("12 of 16 bits", plain[:34] + struct.pack("<H", 12) + plain[36:])
wav("20 of 24 bits", (lambda file: file[:34] + struct.pack("<H", 20) + file[36:])(encoded(subtype="PCM_24")))

lines = (f"{json.dumps(name)}:{json.dumps(file, separators=(',', ':'))}" for name, file in files.items())
print("{" + ",\n".join(lines) + "}")
