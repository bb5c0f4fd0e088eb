"""Compiles device.cc into FOLDER/device.so: python3 make.py FOLDER"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

here = Path(__file__).parent
folder = Path(sys.argv[1])
folder.mkdir(parents=True)
# Not by importing torch, which takes seconds.
torch = Path(find_spec("torch").origin).parent
includes = [f"-I{torch}/include", f"-I{torch}/include/torch/csrc/api/include"]
libraries = [f"-L{torch}/lib", f"-Wl,-rpath,{torch}/lib"]
subprocess.run(
    [os.environ.get("CXX", "g++"), "-std=c++20", "-shared", "-fPIC"]
    + ["-DAT_PER_OPERATOR_HEADERS", str(here / "device.cc"), "-o", str(folder / "device.so")]
    + includes + libraries + ["-ltorch_cpu", "-lc10"],
    check=True,
)  # fmt: skip
