"""
Random programs with inputs inside and outside their guards. The oracle is PyTorch's own run of the same file.

Usage: programs.py OUT SEED PART PARTS COUNT [--after NAME] [--only NAME] [--forms FORM,…]
"""

import io
import linecache
import random
import sys

import torch
from torch.export import Dim

from cases import Cases, alike, draws, options_of, outcome, saving, say, skip, time_limit
from generator import Module, sample

RUNS = 6
FORMS = ["plain"] * 8 + ["decomposed"] * 8 + ["traced"] * 3 + ["scripted"]
# Compiling takes a quarter of a minute.
PLACES_PER_COMPILED = 40


def module_of(source, name):
    """An instance of the class that the source defines. TorchScript reads the source again."""
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space = {"__name__": f"program_{name.replace('-', '_')}"}
    exec(compile(source, file, "exec"), space)
    return space["Program"]()


def dynamic_shapes(program, style):
    """None for fixed sizes, else for each input a dict of its free dimensions."""
    chance = program.chance
    if style == "static":
        return None
    free = {}
    for symbol, size in program.sizes.items():
        least = chance.choice([None, 1, 2, size])
        most = chance.choice([None, size + 1, 12, 64])
        free[symbol] = chance.choice([Dim.AUTO, Dim(symbol, min=least, max=most)]) if style == "mixed" else {
            "auto": Dim.AUTO,
            "named": Dim(symbol, min=least, max=most),
        }[style]
    return tuple({place: free[each] for place, each in enumerate(symbols) if each in free} for symbols in program.symbols)


def exported(program, module, style):
    """The exported program, with automatic dimensions where the named ones do not hold."""
    try:
        return torch.export.export(module, tuple(program.examples), dynamic_shapes=dynamic_shapes(program, style), strict=False)
    except Exception:  # noqa: BLE001
        if style == "static":
            raise
        style = "auto"
    return torch.export.export(module, tuple(program.examples), dynamic_shapes=dynamic_shapes(program, style), strict=False)


def other_inputs(program):
    """Inputs of the example's sizes first, then of others."""
    chance = program.chance
    yield "example", program.examples
    for place in range(RUNS - 1):
        sizes = {symbol: chance.choice([1, 2, 3, size, size - 1, size + 1, size * 2, 7, 10, 13, 16]) for symbol, size in program.sizes.items()}
        if place == 0:
            sizes = dict(program.sizes)
        shapes = [[sizes[each] if each in sizes else int(each) for each in symbols] for symbols in program.symbols]
        if place == RUNS - 2:
            shape = chance.choice(shapes)
            shape[chance.randrange(len(shape))] = chance.choice([0, 1, 2, 5, 9])
        yield f"{shapes}", [sample(shape, example.dtype, chance) for shape, example in zip(shapes, program.examples)]


def write(cases, seed, name, forms):
    program = Module(seed)
    # How the program reaches sconce.
    form = forms[0] if len(forms) == 1 else program.chance.choice(forms)
    style = program.chance.choice(["auto", "auto", "named", "mixed", "static"])
    if form in ("traced", "scripted"):
        # The executor of TorchScript removes layers whose results nothing uses, and so does sconce.
        program.outputs = program.names[len(program.inputs):] or program.outputs
    with time_limit(60):
        module = module_of(program.source, name)
        if form in ("traced", "scripted"):
            made = torch.jit.trace(module, tuple(program.examples), check_trace=False) if form == "traced" else torch.jit.script(module)
            # Saving writes whole floats as integers, so the file may have another meaning than the module that was traced.
            file = io.BytesIO()
            torch.jit.save(made, file)
            file.seek(0)
            runnable = torch.jit.load(file)
            save = made.save
        else:
            made = exported(program, module, style)
            if form == "decomposed":
                made = made.run_decompositions()
            runnable = made.module()
            save = saving(made)

        runs = [(title, inputs, outcome(runnable, inputs)) for title, inputs in other_inputs(program)]
        is_random = form not in ("traced", "scripted") and draws(made) or not alike(runs[0][2], outcome(runnable, runs[0][1], seed=1))
        text = program.source
        if form not in ("traced", "scripted"):
            guards = "\n".join(f"# guard: {guard}" for guard in made._guards_code)
            text += f"\n# {form}, {style}; inputs {program.symbols} of {program.sizes}\n# {made.range_constraints}\n{guards}\n{made.graph}"
        cases.add(name, save, runs, group=form, source=text, compare="shapes" if is_random else "values", compile=form == "compiled")


def attempt(cases, name, forms=FORMS):
    """Writes the program of this name. Some have no form that PyTorch can save: another takes the place."""
    seed = random.Random(name).randrange(2**31)
    for place in range(8):
        try:
            write(cases, seed + place, name, forms)
            return
        except Exception as error:  # noqa: BLE001
            skip(name, error)


def main():
    options = options_of(forms=None)
    cases = Cases(options.out, 50)
    first = int(options.after.split("-")[1]) + 1 if options.after else 0
    for place in range(options.part, options.count, options.parts):
        name = f"{options.seed}-{place}"
        if place < first or (options.only and options.only != name):
            continue
        say(at=name)
        usual = ["compiled"] if place % PLACES_PER_COMPILED == 0 else FORMS
        attempt(cases, name, options.forms.split(",") if options.forms else usual)
    cases.close()


if __name__ == "__main__":
    sys.exit(main())
