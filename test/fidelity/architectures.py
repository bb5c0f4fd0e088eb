"""
Networks of timm, torchvision, transformers and torchaudio, for batches of 1, 2, 7 and 16, packed and not.

Usage: architectures.py OUT SEED PART PARTS COUNT [--after NAME] [--only NAME]
"""

import argparse
import sys
import warnings

import torch
from torch.export import Dim

from cases import DTYPES, Cases, outcome, say, skip, time_limit
from networks import NAMES, network

BATCHES = (1, 2, 7, 16)
TOLERANCE = 1e-5


def rows_of(example, count):
    """Other rows of the same kind."""
    if example.dtype.is_floating_point:
        return torch.randn(count, *example.shape[1:], dtype=example.dtype)
    return torch.stack([example[row % example.size(0)].roll(row // 2, 0) for row in range(count)])


def specs(names, tensors):
    return {name: {"dtype": DTYPES[tensor.dtype], "dims": list(tensor.shape[1:])} for name, tensor in zip(names, tensors)}


def own_difference(results):
    """How far rows differ between batch sizes, relative to the largest element of their output."""
    whole = results[max(results)]
    difference = 0.0
    for count, outputs in results.items():
        for output, all_rows in zip(outputs, whole):
            if output.dtype.is_floating_point:
                scale = all_rows.abs().max().item() or 1.0
                difference = max(difference, (output - all_rows[:count]).abs().max().item() / scale)
    return difference


def write(cases, name, seed):
    torch.manual_seed(seed)
    module, example = network(name)
    with time_limit(240):
        try:
            free = {0: Dim("batch", min=1, max=64)}
            program = torch.export.export(module, example, dynamic_shapes=tuple(free for _ in example), strict=False)
        except Exception:  # noqa: BLE001
            program = torch.export.export(module, example, dynamic_shapes=tuple({0: Dim.AUTO} for _ in example), strict=False)
        runnable = program.module()
        inputs = [rows_of(each, max(BATCHES)) for each in example]
        runs, results = [], {}
        for count in BATCHES:
            rows = [each[:count] for each in inputs]
            result = outcome(runnable, rows)
            if isinstance(result, BaseException):
                raise result
            results[count] = result
            runs.append((f"batch {count}", rows, result))
        own = own_difference(results)
        names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
        outputs = [f"output_{i}" for i in range(len(results[1]))]

        def save(path):
            with open(path, "wb") as file:
                torch.export.save(program, file)

        cases.add(
            name, save, runs, group=name.split("/")[0], source=f"{name}: in PyTorch batches differ by {own:.1e}", compare="values", tolerance=max(TOLERANCE, own),
            batched={"inputs": specs(names, example), "outputs": specs(outputs, results[1])}, pack=[True, False],
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    for number in ("seed", "part", "parts", "count"):
        parser.add_argument(number, type=int)
    parser.add_argument("--after")
    parser.add_argument("--only")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    cases = Cases(options.out, 1)
    names = [name for name in NAMES if not options.only or name.startswith(options.only)][: options.count]
    first = names.index(options.after) + 1 if options.after else 0
    for place in range(options.part, len(names), options.parts):
        if place < first:
            continue
        say(at=names[place])
        try:
            write(cases, names[place], options.seed)
        except Exception as error:  # noqa: BLE001
            skip(names[place], error)
    cases.close()


if __name__ == "__main__":
    sys.exit(main())
