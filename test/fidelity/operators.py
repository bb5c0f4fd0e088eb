"""
One program for each sample of PyTorch's own operator database (OpInfo), plain and decomposed.

Usage: operators.py OUT SEED PART PARTS COUNT [--after NAME] [--only NAME]
"""

import random
import sys

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from cases import DTYPES, Cases, alike, copied, draws, last_line, options_of, outcome, saving, say, skip, time_limit

# Operators whose results are uninitialized memory.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_"}
MOST_ELEMENTS = 200_000
# Number of samples of an operator by dtype; 1 for other dtypes. Most models use float32.
SAMPLES = {torch.float32: 3}


class Operator(torch.nn.Module):
    """Calls an operator with the tensors it is given and the other arguments of the sample."""

    def __init__(self, function, args, kwargs):
        super().__init__()
        self.function = function
        self.rest, self.spec = pytree.tree_flatten((args, kwargs))

    def forward(self, *tensors):
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.rest]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return tuple(pytree.tree_leaves(self.function(*args, **kwargs)))


def samples(operator, dtype, seed):
    """Some of the first 24 samples of an operator, with their places."""
    torch.manual_seed(seed)
    found = []
    for place, sample in enumerate(operator.sample_inputs("cpu", dtype, requires_grad=False)):
        if place == 24:
            break
        tensors = [leaf for leaf in pytree.tree_leaves((sample.input, sample.args, sample.kwargs)) if isinstance(leaf, torch.Tensor)]
        if sum(tensor.numel() for tensor in tensors) > MOST_ELEMENTS:
            continue
        if all(tensor.dtype in DTYPES and tensor.layout == torch.strided for tensor in tensors):
            found.append((place, sample, tensors))
    chosen = random.Random(f"{seed} {operator.name} {dtype}")
    count = min(len(found), SAMPLES.get(dtype, 1))
    return sorted(chosen.sample(found, count), key=lambda each: each[0])


def spiked(tensors, chance):
    """Copies with -0.0, nan and infinities among the elements; None where no tensor can hold them."""
    copies = copied(tensors)
    floating = [copy for copy in copies if copy.dtype.is_floating_point and copy.numel() > 0]
    for copy in floating:
        flat = copy.view(-1)
        for value in (float("nan"), float("inf"), float("-inf"), -0.0):
            flat[chance.randrange(copy.numel())] = value
    return copies if floating else None


def described(value):
    if isinstance(value, torch.Tensor):
        return f"{DTYPES[value.dtype]}{list(value.shape)}"
    return repr(value)


def source_of(operator, sample):
    args = [described(arg) for arg in pytree.tree_leaves((sample.input, sample.args))]
    kwargs = [f"{key}={described(arg)}" for key, arg in sample.kwargs.items()]
    return f"{operator.name}({', '.join(args + kwargs)})"


def write(cases, operator, dtype, seed, decompositions):
    for place, sample, tensors in samples(operator, dtype, seed):
        name = f"{operator.full_name}:{DTYPES[dtype]}:{place}".replace(" ", "")
        chance = random.Random(name)
        module = Operator(operator.op, (sample.input, *sample.args), sample.kwargs)
        # A program needs at least one tensor as input.
        inputs = copied(tensors) or [torch.zeros(1)]
        try:
            with time_limit(60):
                plain = torch.export.export(module, tuple(inputs), strict=False)
        except Exception as error:  # noqa: BLE001
            skip(f"{name}:plain", error)
            continue
        for form in ("plain", "decomposed"):
            try:
                with time_limit(60):
                    program = plain if form == "plain" else plain.run_decompositions(decompositions)
                    runnable = program.module()
                    runs = [("as sampled", inputs, outcome(runnable, inputs))]
                    is_random = operator.name in UNDEFINED or draws(program) or not alike(runs[0][2], outcome(runnable, inputs, seed=1))
                    special = spiked(inputs, chance)
                    if special is not None:
                        runs.append(("with -0.0, nan and inf", special, outcome(runnable, special)))
                    cases.add(
                        f"{name}:{form}",
                        saving(program),
                        runs,
                        group=operator.full_name,
                        source=f"{source_of(operator, sample)}\n{program.graph}",
                        compare="shapes" if is_random else "values",
                    )
            except Exception as error:  # noqa: BLE001
                skip(f"{name}:{form}", error)


def main():
    options = options_of()
    cases = Cases(options.out, 100)
    decompositions = torch.export.default_decompositions()
    pairs = [(operator, dtype) for operator in op_db for dtype in DTYPES if dtype in operator.supported_dtypes("cpu")]
    if options.only:
        pairs = [(operator, dtype) for operator, dtype in pairs if f"{operator.full_name}:{DTYPES[dtype]}:".startswith(options.only)]
    # A random order, so that an interrupted run has tried operators of every kind.
    random.Random(options.seed).shuffle(pairs)
    pairs = pairs[: options.count]
    names = [f"{operator.full_name}:{DTYPES[dtype]}" for operator, dtype in pairs]
    places = range(options.part, len(pairs), options.parts)
    first = names.index(options.after) + 1 if options.after else 0
    for place in places:
        if place < first:
            continue
        operator, dtype = pairs[place]
        say(at=names[place])
        try:
            write(cases, operator, dtype, options.seed, decompositions)
        except Exception as error:  # noqa: BLE001
            skip(names[place], RuntimeError(f"no samples: {last_line(error)}"))
    cases.close()


if __name__ == "__main__":
    sys.exit(main())
