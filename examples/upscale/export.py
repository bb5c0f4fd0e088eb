"""Compiles the network for this processor: writes FOLDER/compiled.pt2, an AOTInductor package. train.py uses `export`.

    pip install torch==2.13.0        (and a C++ compiler)
    python export.py [FOLDER]        (default: this folder)

The exported program upscale.pt2 runs on any processor, operator by operator. AOTInductor makes one native library of it, for
processors like this one. `sconce build --aot` does the same.
"""
import sys
from pathlib import Path

import torch
from torch.export import Dim, ExportedProgram
from torch.fx.experimental import _config as symbolic_shapes

from network import Upscale

here = Path(__file__).parent


def export(network: Upscale) -> ExportedProgram:
    """Exports with free width, height and batch size, and without source lines, which contain paths of this machine."""
    pixels = torch.randint(0, 256, (2, 40, 48, 3), dtype=torch.uint8)
    free = {0: Dim("batch", min=1, max=4096), 1: Dim("height", min=1, max=16384), 2: Dim("width", min=1, max=16384)}
    # Without this option, torch assumes that no size is 1, and the program refuses pictures with a width of one pixel.
    symbolic_shapes.backed_size_oblivious = True
    with torch.no_grad():
        program = torch.export.export(network.eval(), (pixels,), dynamic_shapes=(free,))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    return program


def main(folder: Path) -> None:
    torch.set_num_threads(2)
    network = Upscale().to(memory_format=torch.channels_last)
    network.load_state_dict(torch.export.load(here / "upscale.pt2").state_dict)
    folder.mkdir(parents=True, exist_ok=True)
    # Precompiled headers save time only if many networks are compiled.
    headers = {"aot_inductor.precompile_headers": False}
    options = {"freezing": True, "force_layout_optimization": True, **headers}
    torch._inductor.aoti_compile_and_package(
        export(network), package_path=str(folder / "compiled.pt2"), inductor_configs=options
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else here)
