"""
Networks of timm, torchvision, transformers and torchaudio, for batches of 1, 2, 7 and 16: exported and traced, each packed and not; small ones compiled.

Usage: architectures.py OUT SEED PART PARTS COUNT [--after NAME] [--only NAME,…] [--forms FORM,…]
"""

import copy
import io
import random
import sys

import torch
from torch.export import Dim

from cases import DTYPES, Cases, alike, options_of, outcome, saving, say, skip, time_limit
from networks import NAMES, network

BATCHES = (1, 2, 7, 16)
TOLERANCE = 1e-5

# Networks that run compiled by AOTInductor, too. Larger networks take minutes to compile.
COMPILED = {
    "torchvision/shufflenet_v2_x0_5", "torchvision/squeezenet1_1", "timm/lcnet_035", "timm/test_byobnet", "timm/test_convnext", "timm/test_efficientnet", "timm/test_nfnet",
    "timm/test_resnet", "timm/test_vit", "torchaudio/conv_tasnet", "torchaudio/wav2letter", "transformers/albert", "transformers/bert", "transformers/gpt2", "transformers/llama",
    "transformers/segformer",
}


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


def in_float64(module, inputs):
    """The outputs of the same module in float64; None where it does not run in float64."""
    result = outcome(lambda *given: copy.deepcopy(module).double()(*given), [each.double() if each.dtype == torch.float32 else each for each in inputs])
    return None if isinstance(result, BaseException) else result


def float64_distance(exact, results):
    """How far outputs are from those in float64, relative to their largest element."""
    difference = 0.0
    for count, outputs in results.items():
        for output, true in zip(outputs, exact):
            if output.dtype == torch.float32:
                difference = max(difference, ((output - true[:count]).abs().max() / output.abs().max()).item())
    return difference


def exported(module, example):
    """The program, with the most rows that its guards allow."""
    try:
        free = {0: Dim("batch", min=1, max=64)}
        return torch.export.export(module, example, dynamic_shapes=tuple(free for _ in example), strict=False)
    except Exception:  # noqa: BLE001
        return torch.export.export(module, example, dynamic_shapes=tuple({0: Dim.AUTO} for _ in example), strict=False)


def add(cases, name, module, runnable, inputs, save, item_inputs, **more):
    runs, results = [], {}
    for count in BATCHES:
        rows = [each[:count] for each in inputs]
        result = outcome(runnable, rows)
        runs.append((f"batch {count}", rows, result))
        if not isinstance(result, BaseException):
            results[count] = result
    if not results:
        raise runs[0][2]
    is_random = not alike(runs[0][2], outcome(runnable, runs[0][1], seed=1))
    own = own_difference(results)
    exact = None if is_random else in_float64(module, inputs)
    far = 0.0 if exact is None else float64_distance(exact, results)
    if exact is not None:
        runs = [(title, rows, result, [each[: rows[0].size(0)] for each in exact]) for title, rows, result in runs]
    first = next(iter(results.values()))
    outputs = specs([f"output_{i}" for i in range(len(first))], first)
    cases.add(
        name, save, runs, group=name.split("/")[0], source=f"{name}: in PyTorch batches differ by {own:.1e}, and float32 from float64 by {far:.1e}", compare="shapes" if is_random else "values", tolerance=max(TOLERANCE, own), float64Distance=far,
        batched={"inputs": item_inputs, "outputs": outputs}, **more,
    )


def write_exported(cases, name, module, example, inputs, is_compiled=False):
    program = exported(module, example)
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]

    more = {"compile": True} if is_compiled else {"pack": [True, False]}
    add(cases, f"{name}:compiled" if is_compiled else name, module, program.module(), inputs, saving(program), specs(names, example), **more)


def write_compiled(cases, name, module, example, inputs):
    if name in COMPILED:
        write_exported(cases, name, module, example, inputs, is_compiled=True)


def write_traced(cases, name, module, example, inputs):
    file = io.BytesIO()
    torch.jit.save(torch.jit.trace(module, example, check_trace=False), file)
    file.seek(0)
    loaded = torch.jit.load(file)

    def save(path):
        with open(path, "wb") as saved:
            saved.write(file.getvalue())

    names = [argument.name for argument in loaded.forward.schema.arguments[1:]]
    add(cases, f"{name}:traced", module, loaded, inputs, save, specs(names, example), pack=[True, False])


FORMS = {"exported": write_exported, "traced": write_traced, "compiled": write_compiled}


def write(cases, name, seed, forms):
    torch.manual_seed(seed)
    module, example = network(name)
    inputs = [rows_of(each, max(BATCHES)) for each in example]
    with torch.no_grad():
        for form in forms:
            try:
                with time_limit(240):
                    FORMS[form](cases, name, module, example, inputs)
            except Exception as error:  # noqa: BLE001
                skip(f"{name}:{form}", error)


def main():
    options = options_of(forms=",".join(FORMS))
    cases = Cases(options.out, 1)
    names = [name for name in NAMES if not options.only or name.startswith(tuple(options.only.split(",")))]
    # A random order, so that an interrupted run has tried networks of every library.
    random.Random(options.seed).shuffle(names)
    names = names[: options.count]
    first = names.index(options.after) + 1 if options.after else 0
    for place in range(options.part, len(names), options.parts):
        if place < first:
            continue
        say(at=names[place])
        try:
            write(cases, names[place], options.seed, options.forms.split(","))
        except Exception as error:  # noqa: BLE001
            skip(names[place], error)
    cases.close()


if __name__ == "__main__":
    sys.exit(main())
