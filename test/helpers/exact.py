"""Exported programs with inputs, and the outputs of `ep.module()`; none if it refuses the inputs."""

import base64
import json
import os
import sys
import warnings

import torch
from torch import nn
from torch.export import Dim, export, save
from torch.nn import functional as F


class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class OfTwo(Of):
    def forward(self, x, y):
        return self.function(x, y)


class Cells(nn.Module):
    """Sums of two linear layers of different widths."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.lstm, self.rnn = nn.LSTMCell(3, 5), nn.RNNCell(3, 7)

    def forward(self, x):
        return *self.lstm(x), self.rnn(x)


class Products(nn.Module):
    """From four products on, libtorch's executor adds them up as one, for which the narrow one does not fit."""

    def __init__(self):
        super().__init__()
        # Equal weights would be computed once.
        self.weights = nn.ParameterList([torch.arange(4.0 * width).reshape(4, width) + place for place, width in enumerate((5, 5, 5, 1))])

    def forward(self, x):
        first, second, third, narrow = self.weights
        return x @ first + x @ second + x @ third + x @ narrow


class Speech(nn.Module):
    """Windows of a spectrogram through an LSTM, as in speaker encoders."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.lstm = nn.LSTM(4, 8, batch_first=True)

    def forward(self, mel):
        windows = mel.unfold(1, 16, 8).permute(0, 1, 3, 2)
        count = int(windows.shape[1])
        if count == 1:
            windows = windows[:, 0]
        else:
            windows = windows.reshape(-1, 16, 4)
        return self.lstm(windows)[1][0][-1]


class Settings(nn.Module):
    """Only one argument is a tensor."""

    def forward(self, mask, x, by, mode):
        y = x * by if mask is None else x * mask
        return y + 1 if mode == "up" else y


def positions(x):
    length = x.shape[1]
    with torch.no_grad():
        places = torch.arange(length) * 0.5
    return x + places


def parts(x):
    return x[:, : int(x.size(1) * 0.6)].mean(1)


def longer(x, y):
    return x.mean(1) if x.size(1) >= y.size(1) else y.mean(1) * 100


def even(x):
    return x * 2 if x.size(1) % 2 == 0 else x


def even_batch(x):
    return x * 2 if x.size(0) % 2 == 0 else x


def quarters(x):
    torch._check(x.size(1) % 4 == 0)
    return x.reshape(x.size(0), 4, -1).sum(1)


def bool_constant(x):
    return x * ~torch.full((x.size(0), 1), True)


def branches(x):
    chosen = torch.cond(x.size(0) > 3, lambda x: x + 1, lambda x: x - 1, (x,))
    return torch.cond(chosen.sum() > 0, lambda x: x * 2, lambda x: x * 3, (chosen,))


def assigned(x):
    y = x.clone()
    y[y > 0] = 0.5
    return y, x[torch.tensor([0, 1])]


def tables(length):
    return torch.arange(2.0 * length).reshape(2, length)


def chosen(x, count):
    k = count.item()
    torch._check(k >= 0)
    torch._check(k <= x.size(1))
    return x.narrow(1, 0, k).sum(1), x * k


def rounded(x):
    return x + 1 if round(x.size(1) / 4) > 2 else x


def powers(x):
    # With 10 columns: 3.16, 125 and 0.1.
    if x.size(1) ** 0.5 > 2 and (x.size(1) * 0.5) ** 3 > 5 and x.size(1) ** -1 > 0.01:
        return x + 1
    return x


def remainder(x):
    return x + 1 if (3 * x.size(1)) % (x.size(1) - 1) == 0 else x


def unused(x):
    torch.take(x, torch.tensor([0, -1]))
    return x + 1


def beyond_int64(x):
    return x + 1 if x.size(1) < 2**63 else x


whole = torch.tensor([[1, -2]] * 3)
signs = torch.tensor([[-1.0, 2.0, 0.0, 3.0]] * 3)

# The inputs of the export, then others.
CASES = {
    "a part of a free size": (parts, [tables(20)], [[tables(30)], [tables(21)], [tables(12)]]),
    "a branch by two sizes": (longer, [tables(6), tables(4)], [[tables(4), tables(6)], [tables(9), tables(9)]]),
    "a branch by an even size": (even, [tables(8)], [[tables(7)], [tables(2)]]),
    "a size that enters a graph without gradients": (positions, [tables(6)], [[tables(9)], [tables(3)]]),
    "an even batch": (even_batch, [torch.ones(4, 3)], [[torch.ones(6, 3)]]),
    "torch._check": (quarters, [tables(8)], [[tables(7)], [tables(12)]]),
    "an LSTM over a traced number of windows": (Speech(), [torch.rand(2, 23, 4)], [[torch.rand(2, 40, 4)], [torch.rand(2, 16, 4)]]),
    "a bool constant": (bool_constant, [signs], []),
    "where of bools": (lambda x: torch.where(x > 0, True, False), [signs], []),
    "a sum of bools": (lambda x: torch.add(x > 0, True), [signs], []),
    "a bool tensor without dimensions": (lambda x: x * ~torch.tensor(True), [signs], []),
    "a negative zero": (lambda x: torch.full((x.size(0), 4), -0.0), [signs], []),
    "a product with a negative zero": (lambda x: x.abs() * -0.0, [signs], []),
    "an int64 beyond 2^53": (lambda x: x * 0 + (2**62 + 1), [whole], []),
    "the smallest int64": (lambda x: torch.full((x.size(0), 2), -(2**63)) + x * 0, [whole], []),
    "integers times a float64": (lambda x: x * torch.tensor(0.1, dtype=torch.float64), [whole], []),
    # Decomposed, `sub` has a number in place of its first tensor.
    "rsub of a number": (lambda x: torch.rsub(x, 2, alpha=2), [signs], []),
    "a power of a number": (lambda x: 2**x, [signs], []),
    "infinity": (lambda x: x.masked_fill(x == 0, float("inf")), [signs], []),
    "sums of products that broadcast": (Products(), [signs], []),
    "torch.cond": (branches, [signs], [[torch.ones(5, 4)], [-torch.ones(5, 4)]]),
    "indices and a masked write": (assigned, [signs], []),
    "a size read from a tensor": (chosen, [tables(6), torch.tensor(2)], [[tables(9), torch.tensor(9)], [tables(4), torch.tensor(5)], [tables(4), torch.tensor(-1)]]),
    "a float read from a tensor": (lambda x, y: x * y.item(), [tables(6), torch.tensor(2.5)], [[tables(4), torch.tensor(float("inf"))]]),
    "a bool read from a tensor": (lambda x, y: torch.full((2, 3), y.item()), [tables(6), torch.tensor(True)], [[tables(4), torch.tensor(False)]]),
    # Halves round to even: 10 / 4 is 2, 14 / 4 is 4.
    "a branch by a rounded size": (rounded, [tables(14)], [[tables(10)], [tables(11)]]),
    "branches by powers of a size": (powers, [tables(10)], [[tables(5)], [tables(4)], [tables(3)], [tables(200)]]),
    "a product with the root of a size": (lambda x: x * x.size(1) ** 0.5, [tables(6)], [[tables(4)], [tables(9)]]),
    "a bound beyond int64": (beyond_int64, [tables(10)], [[tables(5)]]),
    "a number as a tensor": (lambda x: torch.xlogy(x, 2.0), [signs], []),
    "floats for numbers": (lambda x: torch.gradient(x, spacing=(2.0,), dim=1), [signs], []),
    "a check that is no result": (torch.linalg.cholesky, [torch.eye(3).repeat(2, 1, 1)], [[-torch.eye(3).repeat(2, 1, 1)]]),
    # With one column the guard divides by zero.
    "a guard with a remainder": (remainder, [tables(4)], [[tables(1)], [tables(2)], [tables(3)]]),
    "an operator without a use": (unused, [tables(4)], [[tables(0)], [tables(7)]]),
    "bits as another dtype": (lambda x: x.view(torch.int64) + 1, [signs.double()], []),
    "arguments that are no tensors": (Settings(), [None, tables(4), 2.5, "up"], [[None, tables(6), 2.5, "up"]]),
    "cells of recurrent layers": (Cells(), [torch.rand(3, 3)], []),
}


def is_tensor(value) -> bool:
    return isinstance(value, torch.Tensor)


def encoded(tensor):
    tensor = tensor.detach().contiguous()
    data = base64.b64encode(tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b"").decode()
    return {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape), "data": data}


def outcome(module, inputs):
    """The outputs; None if PyTorch refuses the inputs."""
    try:
        with torch.no_grad():
            outputs = module(*inputs)
    except Exception:
        return None
    return [encoded(each) for each in (outputs if isinstance(outputs, (tuple, list)) else [outputs])]


def compile_even(folder: str) -> None:
    """A package with guards in its metadata, as `sconce build --aot` writes it."""
    size = {"as_expr": {"expr_str": "Symbol('s0', positive=True, integer=True)"}}
    length = {"as_expr": {"expr_str": "Symbol('s1', positive=True, integer=True)"}}
    guards = {"inputs": [{"name": "x", "sizes": [size, length]}], "ranges": {}, "code": ["(L['x'].size()[1] % 2) == 0"]}
    program = export(Of(even).eval(), (tables(8),), dynamic_shapes=({0: Dim.DYNAMIC, 1: Dim.AUTO},))
    options = {"aot_inductor.metadata": {"sconce_guards": json.dumps(guards)}, "aot_inductor.precompile_headers": False}
    path = os.path.join(folder, "even-compiled.pt2")
    torch._inductor.aoti_compile_and_package(program, package_path=path, inductor_configs=options)


def main(folder: str) -> None:
    warnings.simplefilter("ignore")
    os.makedirs(folder)
    listed = []
    for number, (name, (network, inputs, others)) in enumerate(CASES.items()):
        if not isinstance(network, nn.Module):
            network = (Of if len(inputs) == 1 else OfTwo)(network)
        network.eval()
        sizes = {0: Dim.DYNAMIC, 1: Dim.AUTO} if others else {0: Dim.AUTO}
        free = tuple(sizes if is_tensor(each) and each.dim() > 0 else None for each in inputs)
        program = export(network, tuple(inputs), dynamic_shapes=free)
        for form, each in (("", program), (", decomposed", program.run_decompositions())):
            file = f"{number}{'d' if form else ''}.pt2"
            save(each, os.path.join(folder, file))
            module = each.module()
            calls = [{"inputs": [encoded(one) for one in given if is_tensor(one)], "outputs": outcome(module, given)} for given in [inputs, *others]]
            listed.append({"name": name + form, "file": file, "calls": calls})
    compile_even(folder)
    number = export(Settings(), (None, tables(4), 3, ""), dynamic_shapes=(None, None, Dim.DYNAMIC, None))
    save(number, os.path.join(folder, "number.pt2"))
    with open(os.path.join(folder, "cases.json"), "w") as file:
        json.dump(listed, file)


if __name__ == "__main__":
    main(sys.argv[1])
