"""MP3, FLAC and Ogg files that libsndfile writes, and the samples that it reads from them.

    python3 sounds.py FOLDER

Each NAME has a file NAME.f32 with the samples of each channel, one channel after the other; sounds.json describes all.
"""

import io
import json
import os
import struct
import sys

import numpy as np
import soundfile

folder = sys.argv[1]
noise = np.random.default_rng(34)
written = {}


def write(name, kind, rate, channels, seconds=0.6, **options):
    time = np.arange(int(rate * seconds)) / rate
    tones = [np.sin(2 * np.pi * 220 * (channel + 1) * time * (1 + time)) for channel in range(channels)]
    samples = 0.4 * np.stack(tones, 1) + 0.05 * noise.standard_normal((len(time), channels))
    path = os.path.join(folder, name)
    soundfile.write(path, samples, rate, format=kind[0], subtype=kind[1], **options)
    read, _ = soundfile.read(path, dtype="float32", always_2d=True)
    read.T.copy().tofile(path + ".f32")
    written[name] = {"rate": rate, "channels": read.shape[1], "length": len(read)}


mp3, vorbis, opus = ("MP3", "MPEG_LAYER_III"), ("OGG", "VORBIS"), ("OGG", "OPUS")
# MPEG-2.5, MPEG-2 and MPEG-1 have three rates each.
for rate in (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000):
    for channels in (1, 2):
        write(f"{rate}-{channels}.mp3", mp3, rate, channels)
        write(f"{rate}-{channels}.ogg", vorbis, rate, channels)
for mode in ("CONSTANT", "VARIABLE", "AVERAGE"):
    write(f"{mode.lower()}.mp3", mp3, 44100, 2, bitrate_mode=mode, compression_level=0.4)
for channels in (1, 2, 6):
    write(f"48000-{channels}.opus", opus, 48000, channels)
write("48000-6.ogg", vorbis, 48000, 6)
for name, kind in (("long.mp3", mp3), ("long.ogg", vorbis), ("long.opus", opus)):
    write(name, kind, 48000, 2, 8)
with open(os.path.join(folder, "sounds.json"), "w") as file:
    json.dump(written, file)

# Files with tags and other bytes in front and behind, and files that are cut off. A file that libsndfile refuses has no
# length.
id3v1 = b"TAG" + b"title".ljust(125, b"\0")
ape = b"APETAGEX" + struct.pack("<IIII", 2000, 32, 0, 0xA0000000) + b"\0" * 8
id3v2 = b"ID3\x03\0\0\0\0\x02\0" + b"\0" * 256
changed = {}
for name, kind in (("mp3", mp3), ("flac", ("FLAC", "PCM_16")), ("vorbis", vorbis), ("opus", opus)):
    out = io.BytesIO()
    time = np.arange(30_000) / 48_000
    sound = 0.4 * np.sin(2 * np.pi * np.outer(time, (220, 330))) + 0.02 * noise.standard_normal((30_000, 2))
    soundfile.write(out, sound, 48_000, format=kind[0], subtype=kind[1])
    plain = out.getvalue()
    for change, data in {
        "plain": plain,
        "ID3v1 behind": plain + id3v1,
        "APE tag behind": plain + ape,
        "zeros behind": plain + b"\0" * 500,
        "text behind": plain + b"text behind the last frame " * 20,
        "numbers behind": plain + bytes(noise.integers(0, 255, 700, dtype=np.uint8)),
        "cut by a byte": plain[:-1],
        "cut by 100 bytes": plain[:-100],
        "cut in the header": plain[:60],
        "cut behind the header": plain[:200],
        "numbers in front": bytes(noise.integers(0, 128, 300, dtype=np.uint8)) + plain,
    }.items() | ({"ID3v2 in front": id3v2 + plain}.items() if kind[0] in ("MP3", "FLAC") else set()):
        path = os.path.join(folder, f"{name} {change}")
        with open(path, "wb") as file:
            file.write(data)
        try:
            changed[f"{name} {change}"] = {"length": len(soundfile.read(path)[0])}
        except (soundfile.LibsndfileError, RuntimeError):
            changed[f"{name} {change}"] = {}
with open(os.path.join(folder, "changed.json"), "w") as file:
    json.dump(changed, file)
