"""Writes a wheel: `write_wheel.py WHEEL LEVEL FILE=NAME…` adds each FILE under its NAME, and the list of all files (RECORD).

Equal files give equal bytes: all times are 1980, files are sorted, and a mode is 755 for programs, otherwise 644.
"""

import base64
import hashlib
import os
import sys
import zipfile

wheel, level, *files = sys.argv[1:]


def info(name, mode=0o644):
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100000 | mode) << 16
    return entry


record = []
with zipfile.ZipFile(wheel, "w", compresslevel=int(level)) as archive:
    for file in sorted(files, key=lambda file: file.rsplit("=", 1)[1]):
        path, name = file.rsplit("=", 1)
        with open(path, "rb") as source:
            content = source.read()
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(content)}")
        archive.writestr(info(name, 0o755 if os.access(path, os.X_OK) else 0o644), content, compresslevel=int(level))
    about = next(name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name)
    record.append(f"{about}/RECORD,,")
    archive.writestr(info(f"{about}/RECORD"), "\n".join([*record, ""]), compresslevel=int(level))
