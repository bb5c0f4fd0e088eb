"""Trains the network on the documentation strings of Python's standard library, and writes writer.pt.

    pip install torch==2.13.0
    python train.py [STEPS]        (default: 700)
"""
import ast
import sys
import sysconfig
from io import BytesIO
from pathlib import Path

import torch
from torch.nn import functional as F

from network import CONTEXT, TOKENS, Writer

BATCH, LENGTH = 8, 96


def texts() -> str:
    """Documentation strings of all modules, classes and functions, in ASCII."""
    found = []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = ast.get_docstring(node)
                if text and text.isascii():
                    found.append(text)
    return "\n\n".join(found)


def save(network: Writer, path: Path) -> None:
    """Saves TorchScript without source lines, which contain paths of this machine."""
    whole = BytesIO()
    torch.jit.save(torch.jit.script(network.eval()), whole)
    whole.seek(0)
    reader = torch._C.PyTorchFileReader(whole)
    writer = torch._C.PyTorchFileWriter(str(path))
    for name in reader.get_all_records():
        # PyTorchFileWriter itself writes the version and the id.
        if not name.endswith(".debug_pkl") and name != "version" and not name.startswith(".data/"):
            record = reader.get_record(name)
            writer.write_record(name, record, len(record))
    writer.write_end_of_file()


def main(steps: int) -> None:
    torch.manual_seed(0)
    data = torch.tensor(list(texts().encode()))
    assert data.max() < TOKENS and LENGTH < CONTEXT
    network = Writer()
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps, pct_start=0.1)
    for step in range(steps):
        at = torch.randint(len(data) - CONTEXT, (BATCH,))
        # Every eighth batch has texts of full length.
        length = CONTEXT - 1 if step % 8 == 7 else LENGTH
        rows = torch.stack([data[i : i + length + 1] for i in at.tolist()])
        scores = network(rows[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1)
        optimizer.step()
        schedule.step()
        if step % 50 == 0 or step == steps - 1:
            print(f"step {step}: {len(data)} characters, loss {loss.item():.3f}", flush=True)
    save(network, Path(__file__).parent / "writer.pt")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 700)
