"""Compiles the sources here into FOLDER/operators.so and writes weights that call them: python3 make.py FOLDER"""

import os
import subprocess
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils import cpp_extension

here = Path(__file__).parent
folder = Path(sys.argv[1])
folder.mkdir(parents=True)
library = folder / "operators.so"
includes = [f"-I{path}" for path in cpp_extension.include_paths()]
libraries = [flag for path in cpp_extension.library_paths() for flag in (f"-L{path}", f"-Wl,-rpath,{path}")]
# As one source: most of the time goes into libtorch's headers.
sources = "".join(f'#include "{here / source}"\n' for source in ("fault.cc", "triple.cc"))
subprocess.run(
    [os.environ.get("CXX", "g++"), "-std=c++20", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library)]
    + includes + libraries + ["-ltorch_cpu", "-lc10"],
    input=sources, text=True, check=True,
)  # fmt: skip
torch.ops.load_library(library)


class Triple(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.sconce.triple(x)


class Fault(nn.Module):
    def forward(self, x: Tensor, faults: Tensor) -> Tensor:
        return torch.ops.sconce_test.fault(x, faults)


torch.jit.script(Fault()).save(str(folder / "fault.pt"))
torch.jit.script(Triple()).save(str(folder / "triple.pt"))
(folder / "broken.so").write_text("no library\n")
