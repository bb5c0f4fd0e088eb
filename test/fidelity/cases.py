"""Writes programs with inputs and PyTorch's results into folders of cases, which case.ts reads."""

import argparse
import ctypes
import json
import os
import signal
import traceback
import warnings
from contextlib import contextmanager

import torch

DTYPES = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.bool: "bool",
}


class Folder:
    """One folder of cases: cases.jsonl, data.bin and a file for each program."""

    def __init__(self, path):
        self.path = path
        os.makedirs(path, exist_ok=True)
        self.cases = open(os.path.join(path, "cases.jsonl"), "w")
        self.data = open(os.path.join(path, "data.bin"), "wb")
        self.count = 0

    def tensor(self, value):
        """Stores the elements of a tensor. Raises KeyError for a dtype that sconce does not have."""
        dtype = DTYPES[value.dtype]
        value = value.detach().resolve_conj().resolve_neg().contiguous()
        offset = self.data.tell()
        size = value.numel() * value.element_size()
        if size:
            self.data.write(ctypes.string_at(value.data_ptr(), size))
        return {"dtype": dtype, "shape": list(value.shape), "offset": offset, "bytes": size}

    def leaf(self, value):
        return self.tensor(value) if isinstance(value, torch.Tensor) else {"value": str(value)}

    def add(self, name, save, runs, **more):
        """
        save(path) writes the program. A run is (title, inputs, outcome): outcome is a list of results,
        or an exception; a fourth element has the results in float64. `more` holds the fields source, compare, batched and tolerance.
        """
        file = f"{self.count}.weights"
        self.count += 1
        save(os.path.join(self.path, file))
        written = []
        for title, inputs, outcome, *exact in runs:
            run = {"title": title, "inputs": [self.tensor(value) for value in inputs]}
            if isinstance(outcome, BaseException):
                run["raises"] = f"{type(outcome).__name__}: {outcome}"[:600]
            else:
                run["expected"] = [self.leaf(value) for value in outcome]
                if exact:
                    run["exact"] = [self.leaf(value) for value in exact[0]]
            written.append(run)
        self.data.flush()
        self.cases.write(json.dumps({"name": name, "file": file, "runs": written, **more}) + "\n")
        self.cases.flush()


class Cases:
    """Starts a new folder after every `size` programs, and prints the path of each full one."""

    def __init__(self, out, size):
        self.out = out
        self.size = size
        self.folder = None
        self.folders = 0

    def add(self, *args, **more):
        if self.folder is None:
            self.folder = Folder(os.path.join(self.out, f"{os.getpid()}-{self.folders}"))
            self.folders += 1
        self.folder.add(*args, **more)
        if self.folder.count >= self.size:
            self.close()

    def close(self):
        if self.folder is not None:
            self.folder.cases.close()
            self.folder.data.close()
            say(folder=self.folder.path)
        self.folder = None


def options_of(**more):
    """The options of a script: OUT SEED PART PARTS COUNT [--after NAME] [--only NAME], and `more` with their defaults."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    for number in ("seed", "part", "parts", "count"):
        parser.add_argument(number, type=int)
    for name, default in {"after": None, "only": None, **more}.items():
        parser.add_argument(f"--{name}", default=default)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    return parser.parse_args()


def saving(program):
    """A function that writes an exported program into the file of a path."""

    def save(path):
        with open(path, "wb") as file:
            torch.export.save(program, file)

    return save


def say(**message):
    """Reports to the runner: at (the case under way), folder, skipped (name, reason)."""
    print(json.dumps(message), flush=True)


def skip(name, error):
    say(skipped=name, reason=f"{type(error).__name__}: {error}"[:400])


class TooSlow(Exception):
    pass


@contextmanager
def time_limit(seconds):
    def stop(_signal, _frame):
        raise TooSlow(f"took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def copied(values):
    return [value.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format) for value in values]


def outcome(module, inputs, seed=0):
    """What the module gives for copies of the inputs: a list of leaves without None, or the exception."""
    torch.manual_seed(seed)
    try:
        # TorchScript's executor treats 0-dimensional constants as numbers. The dtypes then differ from the traced module's.
        with torch.no_grad(), torch.jit.optimized_execution(False):
            result = module(*copied(inputs))
    except TooSlow:
        raise
    except Exception as error:  # noqa: BLE001
        return error
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if leaf is not None]
    return [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def alike(first, second):
    """Whether two outcomes hold the same elements; NaN equals NaN."""
    if isinstance(first, BaseException) or isinstance(second, BaseException):
        return isinstance(first, BaseException) and isinstance(second, BaseException)
    return len(first) == len(second) and all(
        a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.dtype.is_floating_point
        else (torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a == b)
        for a, b in zip(first, second)
    )


def draws(program):
    """Whether an exported program draws random numbers."""
    graphs = [module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    return any(torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) for graph in graphs for node in graph.nodes)


def last_line(error):
    return "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
