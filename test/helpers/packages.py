"""Makes compiled packages that only slow tests use, as weights.py makes weights.

    python3 packages.py FOLDER

With the package of weights.py: each dtype, each number of inputs, and each container but a list.
"""

import os
import sys
import warnings

import weights


def generate(folder: str) -> None:
    warnings.simplefilter("ignore")
    os.makedirs(folder)
    name, several = weights.aotinductor(folder, "int64", "several", "dict")
    program, pixels = weights.enlarged(folder)
    weights.package(program, os.path.join(folder, "enlarged-compiled.pt2"))
    enlarged = weights.entry("enlarged-compiled.pt2", {"pixels": pixels}, {"enlarged": weights.Enlarged()(pixels)})
    weights.write_list(folder, {name: several, "aotinductor uint8 one tensor": enlarged})


if __name__ == "__main__":
    generate(os.path.abspath(sys.argv[1]))
