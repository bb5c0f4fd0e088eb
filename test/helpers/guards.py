"""Guards in the notation of PyTorch, with the values that Python computes for tensors of several shapes."""

import json
import math
import os
import random
import sys

import torch

SHAPES = [[[1, 4], [4]], [[2, 7], [3]], [[3, 80], [1]], [[5, 9], [12]], [[8, 1], [80]], [[0, 6], [2]], [[31, 0], [7]], [[6, 127], [64]]]

WRITTEN = [
    "((-1) + (L['x'].size()[1] // 80)) != 1",
    "math.trunc(0.6*torch.sym_float(L['x'].size()[1])) == 42",
    "(-1)*torch.sym_min(4, L['x'].size()[0]) >= (-1)*torch.sym_max(L['x'].size()[1], 3)",
    "not (L['x'].size()[0]**2 < 5 or L['y'].stride()[0] == 1)",
    "round(torch.sym_float(L['x'].size()[0]) ** (-1.0)) <= 9223372036854775808",
    "L['x'].stride()[0] == L['x'].size()[1] and L['x'].storage_offset() == 0",
    "L['x'].size()[0] % 3 == 0 and not L['y'].size()[0] % L['x'].size()[1] == 1",
    "round(L['x'].size()[0] / 2) % 2 == 0",
    "-L['x'].size()[0]**2 // 3 < (-7)",
    "L['x'].size()[0] <= 9223372036854775806",
]


def whole(depth: int) -> str:
    if depth == 0:
        return random.choice(["L['x'].size()[0]", "L['x'].size()[1]", "L['y'].size()[0]", "L['x'].stride()[0]", str(random.randint(0, 9)), f"(-{random.randint(1, 5)})"])
    a, b = whole(depth - 1), whole(depth - 1)
    return random.choice([
        f"({a} + {b})", f"({a} - {b})", f"({a}*{b})", f"({a} // {b})", f"({a} % {b})", f"-{a}", f"abs({a})",
        f"torch.sym_max({a}, {b})", f"torch.sym_min({a}, {b})", f"max({a}, {b})", f"min({a}, {b})",
        f"math.trunc({real(depth - 1)})", f"math.floor({real(depth - 1)})", f"math.ceil({real(depth - 1)})",
        f"round({real(depth - 1)})", f"int({real(depth - 1)})", f"torch.sym_int({real(depth - 1)})", f"({whole(0)})**2",
    ])


def real(depth: int) -> str:
    if depth == 0:
        return random.choice(["0.5", "1.5", "2.25", "float(L['y'].size()[0])", "torch.sym_float(L['x'].size()[0])"])
    return random.choice([
        f"({whole(depth - 1)} / {whole(depth - 1)})", f"({real(depth - 1)}*{real(depth - 1)})", f"({real(depth - 1)} - {whole(depth - 1)})",
        f"({real(depth - 1)} // {real(depth - 1)})", f"({real(depth - 1)} % {real(depth - 1)})",
        "(L['x'].size()[1] ** 0.5)", "(torch.sym_float(L['y'].size()[0]) ** (-1.0))",
    ])


def condition(depth: int) -> str:
    if depth == 0:
        kind = random.choice([whole, whole, real])
        return f"({kind(2)} {random.choice(['==', '!=', '<', '<=', '>', '>='])} {kind(random.randint(0, 2))})"
    return random.choice([f"({condition(depth - 1)} and {condition(0)})", f"({condition(0)} or {condition(depth - 1)})", f"(not {condition(depth - 1)})"])


def value(guard: str, shapes: list[list[int]]) -> bool | None:
    """None if Python refuses the computation."""
    x, y = (torch.empty(shape, device="meta") for shape in shapes)
    try:
        return bool(eval(guard, {"L": {"x": x, "y": y}, "torch": torch, "math": math}))
    except (ArithmeticError, ValueError):
        return None


def main(folder: str) -> None:
    os.makedirs(folder)
    random.seed(7)
    guards = WRITTEN + [condition(random.randint(0, 2)) for _ in range(600)]
    listed = [{"guard": guard, "values": [value(guard, shapes) for shapes in SHAPES]} for guard in guards]
    with open(os.path.join(folder, "guards.json"), "w") as file:
        json.dump({"shapes": SHAPES, "guards": listed}, file)


if __name__ == "__main__":
    main(sys.argv[1])
