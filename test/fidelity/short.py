"""
Some operators with inputs of every dtype, and some random programs with a new seed, which the file OUT/seed has.

Usage: short.py OUT
"""

import os
import random
import sys
import warnings

import torch

import programs
from cases import DTYPES, Folder, outcome, saving, skip

PROGRAMS = 24

# Of x and y, which are 4 by 3, and w, which is 3 by 4.
OPERATORS = [
    "x + y", "x - y", "x * y", "x / y", "x // y", "x % y", "x ** 2", "2 ** x", "-x", "~x", "x & y", "x ^ y", "x.to(torch.int32) << 1", "x == y", "x < 0", "1 - x", "1 / x",
    "torch.add(x, y, alpha=2)", "torch.rsub(x, y, alpha=2)", "torch.add(x > 0, True)", "x + True", "x * -0.0", "x + float('inf')", "x + (2**63 - 1)",
    "x * torch.tensor(True)", "x + torch.tensor(0.1, dtype=torch.float64)", "x + torch.tensor([1.5], dtype=torch.float16)", "x - torch.tensor(2**62 + 1)",
    "torch.where(x > 0, x, y)", "torch.where(x > 0, 1, 0)", "torch.where(x > 0, True, False)", "torch.where(x > 0, x, 0.5)",
    "x.sum()", "x.sum(1)", "x.mean(0)", "x.prod(1)", "x.amax(1)", "x.amin(0, True)", "x.argmax(1)", "x.max(1)", "x.std(1)", "x.var(0, correction=0)",
    "x.cumsum(0)", "x.any(1)", "x.all()", "x.sort(1)", "x.topk(2, 1)", "x.norm()", "x.median(1)", "x.logsumexp(1)", "x.softmax(1)", "x.log_softmax(0)", "x.unique()",
    "x.abs()", "x.sign()", "x.exp()", "x.log()", "x.sqrt()", "x.round()", "x.floor()", "x.relu()", "x.sigmoid()", "x.tanh()", "x.reciprocal()", "x.isnan()", "x.signbit()",
    "torch.copysign(x, y)", "torch.atan2(x, y)", "torch.fmod(x, y)", "torch.maximum(x, y)", "torch.nan_to_num(x)", "torch.div(x, y, rounding_mode='floor')",
    "torch.clamp(x, 0, 1)", "torch.clamp(x, min=-0.5)", "torch.lerp(x, y, 0.3)", "torch.addcmul(x, x, y, value=2)", "x @ w", "torch.einsum('ij,kj->ik', x, y)",
    "torch.cat([x, y], 1)", "torch.stack([x, y])", "x.t()", "x.reshape(-1)", "x[:, 1:]", "x[::2]", "x[-1]", "x[x > 0]", "x[torch.tensor([0, 2])]",
    "x[:, torch.tensor([0, 2])]", "x[None, ..., 0]", "x.gather(1, torch.zeros(4, 1, dtype=torch.int64))", "x.index_select(0, torch.tensor([3, 0]))", "x.flip(1)",
    "x.roll(1, 0)", "x.tril()", "x.unfold(1, 2, 1)", "x.split(2)", "x.chunk(3, 1)", "x.expand(2, 4, 3)", "x.repeat(2, 1)", "x.nonzero()", "x.to(torch.float16)", "x.to(torch.int8)",
    "x.bool()", "x.masked_fill(x > 0, 0)", "x.clone().index_put_((torch.tensor([0, 1]),), y[:2])", "x.clone().fill_(1)", "x.clone().add_(y)", "(x + 0)[:, 0].zero_()",
    "x.scatter(1, torch.zeros(4, 1, dtype=torch.int64), y)", "torch.full((2, 2), 2**63 - 1) + 0 * x.numel()", "torch.full_like(x, True)", "torch.arange(5) * x[0, 0]",
    "torch.nn.functional.gelu(x)", "torch.nn.functional.layer_norm(x, (3,))", "torch.nn.functional.pad(x, (1, 1), value=-0.0)", "torch.nn.functional.linear(x, y)",
    "torch.nn.functional.one_hot(x.long().clamp(0, 2), 3)", "torch.nn.functional.interpolate(x[None], scale_factor=2)", "torch.nn.functional.max_pool1d(x, 2)",
]


class Every(torch.nn.Module):
    """One expression for inputs of several dtypes."""

    def __init__(self, text, count):
        super().__init__()
        self.function = eval(f"lambda x, y, w: {text}")
        self.count = count

    def forward(self, *tensors):
        results = [self.function(*tensors[3 * i : 3 * i + 3]) for i in range(self.count)]
        return tuple(torch.utils._pytree.tree_leaves(results))


def inputs_of(dtype):
    if dtype == torch.bool:
        return [torch.rand(shape) < 0.5 for shape in ((4, 3), (4, 3), (3, 4))]
    if not dtype.is_floating_point:
        return [torch.randint(1, 9, shape).to(dtype) for shape in ((4, 3), (4, 3), (3, 4))]
    made = [torch.randn(shape).to(dtype) for shape in ((4, 3), (4, 3), (3, 4))]
    made[0].view(-1)[:4] = torch.tensor([-0.0, float("nan"), float("inf"), float("-inf")], dtype=dtype)
    return made


def runs(function, tensors):
    try:
        function(*[each.clone() for each in tensors])
    except Exception:  # noqa: BLE001
        return False
    return True


def write_operators(folder):
    for place, text in enumerate(OPERATORS):
        torch.manual_seed(place)
        function = eval(f"lambda x, y, w: {text}")
        taken = [tensors for tensors in map(inputs_of, DTYPES) if runs(function, tensors)]
        inputs = [each for tensors in taken for each in tensors]
        try:
            program = torch.export.export(Every(text, len(taken)), tuple(inputs), strict=False)
            if place % 4 == 1:
                program = program.run_decompositions()
        except Exception as error:  # noqa: BLE001
            skip(text, error)
            continue

        case = [("example", inputs, outcome(program.module(), inputs))]
        folder.add(f"{text}:{len(taken)}", saving(program), case, group="operators", source=f"{text}\n{program.graph}", compare="values")


def main():
    warnings.simplefilter("ignore")
    folder = Folder(sys.argv[1])
    write_operators(folder)
    seed = random.randrange(1_000_000)
    with open(os.path.join(folder.path, "seed"), "w") as file:
        file.write(str(seed))
    # From 1: programs.py compiles the program 0.
    for place in range(1, PROGRAMS + 1):
        programs.attempt(folder, f"{seed}-{place}")


if __name__ == "__main__":
    sys.exit(main())
