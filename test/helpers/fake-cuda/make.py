"""Compiles device.cc into FOLDER/device.so: python3 make.py FOLDER"""

import os
import subprocess
import sys
from pathlib import Path

from torch.utils import cpp_extension

here = Path(__file__).parent
folder = Path(sys.argv[1])
folder.mkdir(parents=True)
includes = [f"-I{path}" for path in cpp_extension.include_paths()]
libraries = [flag for path in cpp_extension.library_paths() for flag in (f"-L{path}", f"-Wl,-rpath,{path}")]
subprocess.run(
    [os.environ.get("CXX", "g++"), "-std=c++20", "-shared", "-fPIC"]
    + [str(here / "device.cc"), "-o", str(folder / "device.so")] + includes + libraries + ["-ltorch_cpu", "-lc10"],
    check=True,
)  # fmt: skip
