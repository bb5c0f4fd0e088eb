"""Makes the weights the native tests run, with reference inputs and outputs computed by PyTorch itself.

    python3 weights.py FOLDER

FOLDER/fixtures.json lists each file with its declared tensors; tensors are base64 of their bytes, item after item.
"""

import base64
import json
import os
import sys
import warnings
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

import stateful

ROWS = 64
DTYPES = {"float32": torch.float32, "int64": torch.int64, "uint8": torch.uint8}


# The same two results of one or of three inputs, given in containers.


class One(nn.Module):
    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.register_buffer("scale", torch.arange(1, 13).reshape(3, 4).to(dtype))
        self.register_buffer("shift", torch.full((4,), 7).to(dtype))

    def first(self, x: Tensor) -> Tensor:
        return x * self.scale + self.shift

    def second(self, x: Tensor) -> Tensor:
        return x.amax(2)


class OneTensor(One):
    def forward(self, x: Tensor) -> Tensor:
        return self.first(x)


class OneTuple(One):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        return self.first(x), self.second(x)


class OneList(One):
    def forward(self, x: Tensor) -> List[Tensor]:
        return [self.first(x), self.second(x)]


class OneDict(One):
    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        return {"second": self.second(x), "first": self.first(x)}


class Several(nn.Module):
    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.register_buffer("scale", torch.arange(1, 5).to(dtype))

    def first(self, left: Tensor, right: Tensor, gain: Tensor) -> Tensor:
        return left * right.unsqueeze(1) + self.scale + gain.to(left.dtype).reshape(-1, 1, 1)

    def second(self, left: Tensor, right: Tensor) -> Tensor:
        return left.amax(2) + right[:, :3]


class SeveralTensor(Several):
    def forward(self, left: Tensor, right: Tensor, gain: Tensor) -> Tensor:
        return self.first(left, right, gain)


class SeveralDict(Several):
    def forward(self, left: Tensor, right: Tensor, gain: Tensor) -> Dict[str, Tensor]:
        return {"second": self.second(left, right), "first": self.first(left, right, gain)}


ARITHMETIC = {
    "one": {"tensor": OneTensor, "tuple": OneTuple, "list": OneList, "dict": OneDict},
    "several": {"tensor": SeveralTensor, "dict": SeveralDict},
}


# Modules for one promise each: TorchScript by file, then classes.


class Named(NamedTuple):
    low: Tensor
    high: Tensor


class NamedResults(nn.Module):
    def forward(self, x: Tensor) -> Named:
        return Named(x - 1, x + 1)


class Partial(NamedTuple):
    low: Tensor
    aside: Optional[Tensor]
    high: Tensor


class PartialNamed(nn.Module):
    def forward(self, x: Tensor) -> Partial:
        return Partial(x - 1, None, x + 1)


SCRIPTS = {
    "area": "def forward(self, image): return image.mean([2, 3])",
    "identity": "def forward(self, x): return x",
    "twice": """
def forward(self, x):
    y = x + 1
    return y, y""",
    "large": "def forward(self, x): return x.unsqueeze(1).expand(-1, 100000) + torch.arange(100000, device=x.device)",
    "defaults": """
def forward(self, x, scale: float = 3.0, offset: Optional[Tensor] = None):
    return x * scale if offset is None else x * scale + offset""",
    "partialtuple": "def forward(self, x): return x - 1, None, x + 1",
    "total": "def forward(self, x): return x.sum()",
    "firstrow": "def forward(self, x): return x[:1]",
    "double": "def forward(self, x): return x.double()",
    "raises": """
def forward(self, x):
    if bool(x.sum() > 0):
        raise ValueError("this item is not wanted")
    return x""",
    "mismatch": "def forward(self, x): return torch.matmul(x, torch.ones([5, 2]))",
    "greedy": "def forward(self, x): return torch.zeros([1 << 50]) + x",
    # An author's text, which is also a text of libtorch.
    "memory": """
def forward(self, x):
    if bool(x.sum() > 0):
        raise ValueError("the list is out of memory, not enough memory, std::bad_alloc")
    return x""",
    "number": "def forward(self, x): return x.size(0)",
    "nested": "def forward(self, x): return x, (x, x)",
    "count": "def forward(self, x, times: int): return x * times",
    # As many rounds of some milliseconds as the largest number of the input says.
    "slow": """
def forward(self, x):
    y = torch.ones([512, 512])
    for _ in range(int(x.max())):
        y = torch.tanh(y @ y)
    return x + y.sum() * 0""",
    # Dropout as a careless trace keeps it.
    "drops": "def forward(self, x): return torch.dropout(x, 0.5, True)",
    # A softmax over the items of a batch.
    "mixes": "def forward(self, x): return x.softmax(0)",
    # A mean over all of a padded dimension, with the padding; of at most eight.
    "averages": "def forward(self, x): return (x + torch.zeros([8])[: x.shape[1]]).mean(1, keepdim=True)",
    "totals": "def forward(self, x): return x.sum(1, keepdim=True)",
    "deep": "def forward(self, x): return ((x * 2) * 2) * 2 + 1",
    # Asks for more memory than there is where the input is above 1000.
    "hungry": """
def forward(self, x):
    if bool(x.max() > 1000):
        return torch.zeros([1 << 46], device=x.device) + x
    return x * 2""",
}


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10), nn.Softmax(1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Tokens(nn.Module):
    """The padding has the id 9 and an embedding that is not zero, so that a wrong padding shows."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4)

    def forward(self, ids: Tensor, mask: Tensor) -> Dict[str, Tensor]:
        each = self.embedding(ids)
        weight = mask.unsqueeze(2)
        return {"each": each, "mean": (each * weight).sum(1) / weight.sum(1), "ids": ids}


class Constant(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.arange(200_000, dtype=torch.float32).reshape(2, 100_000))

    def forward(self, x: Tensor) -> Tensor:
        return self.rows


class Asserts(nn.Module):
    """Asserts with the text of libtorch's allocator."""

    def forward(self, x: Tensor) -> Tensor:
        torch._assert_async(x.sum() == 0, "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory")
        return x * 1


def spec(tensor: Tensor, dims: Optional[list] = None) -> dict:
    name = str(tensor.dtype).removeprefix("torch.")
    return {"dtype": name, "dims": list(tensor.shape[1:]) if dims is None else dims}


def encoded(tensor: Tensor) -> str:
    return base64.b64encode(bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist())).decode()


def random_input(dtype: torch.dtype, *shape: int) -> Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape, dtype=dtype)
    if dtype == torch.int64:
        return torch.randint(-(1 << 40), 1 << 40, shape, dtype=dtype)
    return torch.randint(0, 256, shape, dtype=dtype)


def arithmetic(dtype: str, arity: str, container: str):
    """The module, its inputs and its outputs by name."""
    torch.manual_seed(1)
    module = ARITHMETIC[arity][container](DTYPES[dtype]).eval()
    kind = DTYPES[dtype]
    if arity == "one":
        inputs = {"x": random_input(kind, ROWS, 3, 4)}
    else:
        inputs = {
            "left": random_input(kind, ROWS, 3, 4),
            "right": random_input(kind, ROWS, 4),
            "gain": torch.randint(0, 100, (ROWS,), dtype=torch.int64),
        }
    results = module(*inputs.values())
    if container == "tensor":
        outputs = {"first": results}
    elif container == "dict":
        outputs = {name: results[name] for name in ("first", "second")}
    else:
        outputs = dict(zip(("first", "second"), results))
    return module, inputs, outputs


def entry(file: str, inputs: Dict[str, Tensor], outputs: Dict[str, Tensor], dims: Optional[dict] = None) -> dict:
    dims = dims or {}
    return {
        "file": file,
        "inputs": {name: spec(value, dims.get(name)) for name, value in inputs.items()},
        "outputs": {name: spec(value, dims.get(name)) for name, value in outputs.items()},
        "inputData": {name: encoded(value) for name, value in inputs.items()},
        "outputData": {name: encoded(value) for name, value in outputs.items()},
    }


def torchscript(folder: str) -> Dict[str, dict]:
    entries = {}
    for dtype in DTYPES:
        for arity, containers in ARITHMETIC.items():
            for container in containers:
                module, inputs, outputs = arithmetic(dtype, arity, container)
                name = f"torchscript {dtype} {arity} {container}"
                file = name.replace(" ", "-") + ".pt"
                torch.jit.script(module).save(os.path.join(folder, file))
                entries[name] = entry(file, inputs, outputs)

    torch.manual_seed(2)
    network = Network()
    for _ in range(3):  # so that batch normalization has something to say
        network(torch.randn(16, 64) * 3 + 1)
    network.eval()
    x = torch.randn(ROWS, 64)
    torch.jit.script(network).save(os.path.join(folder, "network.pt"))
    entries["network"] = entry("network.pt", {"x": x}, {"scores": network(x).detach()})

    modules = {kind.__name__.lower(): torch.jit.script(kind()) for kind in (Constant, NamedResults, PartialNamed, *stateful.NETWORKS)}
    torch.manual_seed(3)
    modules["tokens"] = torch.jit.script(Tokens())
    for name, source in SCRIPTS.items():
        modules[name] = type(name.title(), (torch.jit.ScriptModule,), {})()
        modules[name].define(source.strip() + "\n")
    for name, module in modules.items():
        module.eval().save(os.path.join(folder, f"{name}.pt"))

    tokens = torch.jit.load(os.path.join(folder, "tokens.pt"))
    ids = torch.tensor([[1, 2, 3, 9, 9], [4, 5, 6, 7, 8], [2, 9, 9, 9, 9]])
    mask = (ids != 9).to(torch.float32)
    results = {name: value.detach() for name, value in tokens(ids, mask).items()}
    entries["tokens"] = entry("tokens.pt", {"ids": ids, "mask": mask}, results)

    torch.save(network.state_dict(), os.path.join(folder, "checkpoint.pt"))
    torch.export.save(torch.export.export(network, (x,)), os.path.join(folder, "exported.pt2"))
    torch.export.save(torch.export.export(Asserts(), (torch.zeros(1, 4),)), os.path.join(folder, "asserts.pt2"))
    return entries


def aotinductor(folder: str, dtype: str, arity: str, container: str) -> Tuple[str, dict]:
    module, inputs, outputs = arithmetic(dtype, arity, container)
    name = f"aotinductor {dtype} {arity} {container}"
    file = name.replace(" ", "-") + ".pt2"
    batch = torch.export.Dim("batch", min=1, max=4096)
    dynamic = {key: {0: batch} for key in inputs}
    if arity == "one":
        program = torch.export.export(module, tuple(inputs.values()), dynamic_shapes=dynamic)
    else:
        # By name, in another order than the model declares them.
        named = {key: inputs[key] for key in ("gain", "right", "left")}
        program = torch.export.export(module, (), named, dynamic_shapes={key: dynamic[key] for key in named})
    package(program, os.path.join(folder, file))
    return name, entry(file, inputs, outputs)


def package(program: ExportedProgram, path: str) -> None:
    # Precompiling headers takes longer than one package gains by it.
    options = {"aot_inductor.precompile_headers": False}
    torch._inductor.aoti_compile_and_package(program, package_path=path, inductor_configs=options)


def generate(folder: str) -> None:
    import layers
    import programs  # which imports this module

    warnings.simplefilter("ignore")
    os.makedirs(folder)
    entries = torchscript(folder)
    # In this process, as importing torch takes seconds.
    programs.main(os.path.join(folder, "programs"))
    layers.main(os.path.join(folder, "layers"))
    # Compiling takes twelve seconds, so packages.py makes the others, which only slow tests use.
    name, made = aotinductor(folder, "float32", "one", "tuple")
    write_list(folder, {**entries, name: made})


def write_list(folder: str, entries: Dict[str, dict]) -> None:
    with open(os.path.join(folder, "fixtures.json"), "w") as out:
        json.dump({"rows": ROWS, "fixtures": entries}, out)


if __name__ == "__main__":
    generate(os.path.abspath(sys.argv[1]))
