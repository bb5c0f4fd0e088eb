"""Random modules as Python text. Each line is tried on example inputs, and only lines that run are kept."""

import random

import torch

FLOATS = ["torch.float32", "torch.float64", "torch.float16", "torch.bfloat16"]
DTYPES = [*FLOATS, "torch.int8", "torch.int16", "torch.int32", "torch.int64", "torch.uint8", "torch.bool"]
NUMBERS = ["0", "1", "-1", "2", "3", "0.5", "-0.0", "-1.5", "1e-8", "1e10", "float('inf')", "float('-inf')", "float('nan')", "0.1"]
WHOLE = ["0", "1", "-1", "2", "3", "7", "2**31 - 1", "2**53 + 1", "2**62 + 1", "2**63 - 1", "-2**63", "-2**63 + 1"]
TENSORS = [
    "torch.tensor(True)", "torch.tensor(False)", "torch.tensor([True, False])[0]", "torch.tensor(0.1, dtype=torch.float64)",
    "torch.tensor(-0.0)", "torch.tensor(float('inf'))", "torch.tensor(float('nan'))", "torch.tensor(2**63 - 1)", "torch.tensor(-2**63)",
    "torch.tensor(3, dtype=torch.int8)", "torch.tensor(200, dtype=torch.uint8)", "torch.tensor(0.1, dtype=torch.float16)",
    "torch.tensor(1.1, dtype=torch.bfloat16)", "torch.tensor([1, 2**62 + 1, -5])", "torch.tensor([[1.5], [-0.0]])", "torch.tensor(2)",
    "torch.tensor(2**31 - 1, dtype=torch.int32)", "torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)", "torch.tensor(1e-40)",
]
MODULES = [
    "nn.Linear({last}, {n})", "nn.Linear({last}, {n}, bias=False)", "nn.BatchNorm1d({second})", "nn.BatchNorm1d({second}, affine=False)",
    "nn.BatchNorm1d({second}, track_running_stats=False)", "nn.BatchNorm2d({second})", "nn.LayerNorm({last})", "nn.GroupNorm(1, {second})",
    "nn.InstanceNorm1d({second}, affine=True)", "nn.Conv1d({second}, {n}, 2)", "nn.Conv1d({second}, {n}, 3, padding=1, bias=False)",
    "nn.Conv2d({second}, {n}, 2, padding=1)", "nn.ConvTranspose1d({second}, {n}, 2, stride=2)", "nn.Conv1d({second}, {second}, 1, groups={second})",
    "nn.Sequential(nn.Linear({last}, {n}), nn.BatchNorm1d({second}))", "nn.Sequential(nn.Conv1d({second}, {n}, 1), nn.BatchNorm1d({n}))",
    "nn.Sequential(nn.Conv1d({first}, {n}, 1), nn.BatchNorm1d({n}))", "nn.Sequential(nn.Linear({last}, {n}), nn.BatchNorm2d({second}))",
    "nn.Sequential(nn.Conv2d({second}, {n}, 1), nn.BatchNorm2d({n}), nn.ReLU())", "nn.Sequential(nn.Linear({last}, {last}), nn.BatchNorm1d({last}))",
    "nn.Sequential(nn.Linear({last}, {n}), nn.GELU(), nn.Linear({n}, {last}))", "nn.Sequential(nn.BatchNorm1d({second}), nn.Conv1d({second}, {n}, 1))",
    "nn.Sequential(nn.ConvTranspose1d({second}, {n}, 2), nn.BatchNorm1d({n}))", "nn.AvgPool1d(2)", "nn.MaxPool1d(2, stride=1)",
    "nn.AdaptiveAvgPool1d(2)", "nn.AdaptiveMaxPool1d(1)", "nn.Softmax(-1)", "nn.LogSoftmax(1)", "nn.PReLU()", "nn.Hardswish()",
    "nn.Upsample(scale_factor=2)", "nn.Upsample(scale_factor=1.5, mode='linear')", "nn.Flatten()", "nn.GLU()", "nn.PixelShuffle(1)", "nn.Dropout(0.5)",
]
TUPLE_MODULES = [
    "nn.LSTM({last}, {n}, batch_first=True)", "nn.GRU({last}, {n})", "nn.RNN({last}, {n}, bidirectional=True, batch_first=True)",
    "nn.MultiheadAttention({last}, 1, batch_first=True)", "nn.LSTM({last}, {n}, num_layers=2)",
]
CELLS = ["nn.LSTMCell({last}, {n})", "nn.GRUCell({last}, {n})", "nn.RNNCell({last}, {n})"]
UNARY = """abs neg exp log sqrt rsqrt sin cos tanh sigmoid relu floor ceil round trunc sign reciprocal square erf log1p expm1 frac isnan isfinite
signbit logical_not bitwise_not sgn logit atan sinh exp2 log2 digamma lgamma positive""".split()
BINARY = """add sub mul div remainder fmod pow atan2 maximum minimum eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or
bitwise_xor floor_divide copysign hypot fmax fmin true_divide rsub xlogy logaddexp nextafter heaviside""".split()
REDUCTIONS = """sum mean amax amin prod argmax argmin std var any all cumsum cumprod softmax log_softmax logsumexp flip sort median
count_nonzero nansum norm unbind argsort max min cummax""".split()
FUNCTIONS = """gelu silu softplus elu mish hardtanh leaky_relu selu celu relu6 logsigmoid softsign tanhshrink hardshrink hardsigmoid""".split()


class Module:
    """A random module: `source` defines the class Program; `inputs` are the examples; `symbols` name the free sizes of each input."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.seed = seed
        self.setup = []
        self.lines = []
        self.sizes = {"n": self.chance.randint(2, 6), "m": self.chance.randint(3, 8), "k": self.chance.randint(2, 5)}
        self.inputs = []
        self.symbols = []
        self.names = []
        self.local = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "self": torch.nn.Module()}
        torch.manual_seed(seed)
        for place in range(self.chance.choice([1, 1, 2, 2, 3])):
            self.add_input(place)
        self.examples = [value.clone() for value in self.inputs]
        wanted = self.chance.choice([1, 2, 2, 3, 3, 4, 5, 6, 8])
        for _ in range(60):
            if len(self.lines) >= wanted:
                break
            self.add_line(self.chance.choice(STEPS))
        made = self.names[len(self.inputs):]
        self.outputs = (made[-1:] + self.chance.sample(made[:-1], min(2, len(made[:-1])))) or [f"{self.names[0]} + 1"]

    @property
    def source(self):
        begin = ["super().__init__()", f"torch.manual_seed({self.seed})"]
        setup = "".join(f"        {line}\n" for line in begin + [line for block in self.setup for line in block.split("\n")])
        body = [line for block in self.lines for line in block.split("\n")] + [f"return ({', '.join(self.outputs)},)"]
        arguments = ", ".join(["self", *self.names[: len(self.inputs)]])
        text = "".join(f"        {line}\n" for line in body)
        return (
            "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n\n\nclass Program(nn.Module):\n"
            f"    def __init__(self):\n{setup}\n    def forward({arguments}):\n{text}"
        )

    def add_input(self, place):
        symbols = self.chance.choice(["n", "nm", "nm", "nm", "nmk", "nkm", "nm4", "n3", "n4m", "n44", "m", "mm", "n233"])
        if place == 0 and symbols[0] != "n":
            symbols = "n" + symbols
        dtype = eval(self.chance.choice(["torch.float32"] * 6 + ["torch.int64", "torch.int64", "torch.bool", *DTYPES]))
        self.symbols.append(symbols)
        self.inputs.append(sample([self.sizes.get(each, int(each) if each.isdigit() else 0) for each in symbols], dtype, self.chance))
        self.names.append(f"x{place}")
        self.local[f"x{place}"] = self.inputs[-1].clone()

    def add_line(self, step):
        """Keeps what the step gives if it runs on the examples."""
        name = f"v{len(self.names)}"
        made = step(self, name)
        if made is None:
            return
        setup, line = made if isinstance(made, tuple) else (None, made)
        trial = dict(self.local)
        try:
            torch.manual_seed(0)
            with torch.no_grad():
                if setup:
                    exec(setup, trial)
                exec(line, trial)
        except Exception:  # noqa: BLE001
            return
        value = trial.get(name)
        if isinstance(value, torch.Tensor) and value.numel() > 20_000:
            return
        if setup:
            self.setup.append(setup)
        self.lines.append(line)
        self.local = trial
        if isinstance(value, torch.Tensor):
            self.names.append(name)

    # What lines are made of.

    def value(self, wanted=lambda value: True):
        found = [name for name in self.names if wanted(self.local[name])]
        if not found:
            raise LookupError
        # Mostly what was made last, so that lines build on each other.
        return found[-1] if self.chance.random() < 0.5 else self.chance.choice(found)

    def floating(self):
        return self.value(lambda value: value.is_floating_point())

    def dim(self, name):
        return self.chance.randrange(max(self.local[name].dim(), 1)) - self.chance.choice([0, 0, self.local[name].dim()])

    def size(self):
        """An expression of sizes."""
        name = self.value(lambda value: value.dim() > 0)
        text = f"{name}.size({self.chance.randrange(self.local[name].dim())})"
        form = self.chance.choice(["{0}", "{0}", "{0} // 2", "{0} - 1", "int({0} * 0.6)", "{0} + 1", "{0} * 2", "({0} + 1) // 2", "{0} % 3", "max({0}, 3)", "min({0}, 4)", "-{0}", "{0} - 2", "({0} - 3) // 2 + 1", "round({0} / 3)"])
        return form.format(text)

    def condition(self):
        return f"{self.size()} {self.chance.choice(['>', '>=', '<', '<=', '==', '!='])} {self.chance.choice([self.size(), '2', '3', '4', '0'])}"

    def number(self):
        return self.chance.choice(NUMBERS + WHOLE)

    def operand(self):
        kind = self.chance.random()
        if kind < 0.45:
            return self.value()
        if kind < 0.7:
            return self.number()
        if kind < 0.8:
            return self.size()
        return self.chance.choice(TENSORS)


def sample(shape, dtype, chance):
    """Random elements, with -0.0, nan and infinities now and then."""
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    if not dtype.is_floating_point:
        return torch.randint(0 if dtype == torch.uint8 else -5, 10, shape).to(dtype)
    value = torch.randn(shape).to(dtype)
    if value.numel() and chance.random() < 0.2:
        value.view(-1)[chance.randrange(value.numel())] = chance.choice([-0.0, float("nan"), float("inf"), float("-inf")])
    return value


def unary(p, to):
    return f"{to} = torch.{p.chance.choice(UNARY)}({p.value()})"


def function(p, to):
    return f"{to} = F.{p.chance.choice(FUNCTIONS)}({p.floating()})"


def binary(p, to):
    if p.chance.random() < 0.3:
        return f"{to} = {p.operand()} {p.chance.choice(['+', '-', '*', '/', '%', '**', '//', '<', '==', '&', '|', '^', '<<', '>>'])} {p.operand()}"
    name = p.chance.choice(BINARY)
    more = f", alpha={p.chance.choice(['2', '-1', '0.5', '3'])}" if name in ("add", "sub", "rsub") and p.chance.random() < 0.4 else ""
    if name == "div" and p.chance.random() < 0.6:
        more = f", rounding_mode={p.chance.choice(['None', repr('floor'), repr('trunc')])}"
    return f"{to} = torch.{name}({p.value()}, {p.operand()}{more})"


def reduction(p, to):
    name, value = p.chance.choice(REDUCTIONS), p.value()
    dim = p.dim(value)
    keep = ", keepdim=True" if p.chance.random() < 0.3 and name in ("sum", "mean", "amax", "amin", "std", "argmax", "all") else ""
    if name in ("sum", "mean", "cumsum", "softmax", "prod") and p.chance.random() < 0.3:
        keep += f", dtype={p.chance.choice(DTYPES)}"
    if name in ("sort", "median", "max", "min", "unbind", "cummax"):
        return f"{to} = torch.{name}({value}, {dim})[0]"
    if name == "flip":
        return f"{to} = torch.flip({value}, [{dim}])"
    if p.chance.random() < 0.1:
        return f"{to} = torch.{name}({value})"
    return f"{to} = torch.{name}({value}, {dim}{keep})"


def view(p, to):
    value = p.value(lambda value: value.dim() > 0)
    a, b = p.dim(value), p.dim(value)
    return f"{to} = " + p.chance.choice([
        f"{value}.transpose({a}, {b})", f"{value}.unsqueeze({a})", f"{value}.squeeze()", f"{value}.squeeze({a})", f"{value}.flatten()",
        f"{value}.flatten(1)", f"{value}.reshape({value}.size(0), -1)", f"{value}.reshape(-1)", f"{value}.view({value}.shape)", f"{value}.mT",
        f"{value}.unfold({a}, 2, 1)", f"{value}.unfold({a}, {p.size()}, 1)", f"{value}.movedim({a}, {b})", f"{value}.diagonal()",
        f"{value}.unsqueeze(0).expand({p.size()}, *[-1] * {value}.dim())", f"{value}.chunk(2, {a})[{p.chance.choice([0, 1, -1])}]",
        f"{value}.split(2, {a})[-1]", f"{value}.contiguous()", f"{value}.permute(*range({value}.dim() - 1, -1, -1))", f"{value}.tile(2)",
        f"{value}.unflatten({a}, (-1, 2))", f"{value}.view(torch.int32)", f"{value}.repeat(2, *[1] * ({value}.dim() - 1))", f"{value}.roll(1, {a})",
        f"{value}.repeat_interleave(2, {a})", f"{value}.select({a}, {p.size()})", f"{value}.narrow({a}, 0, {p.size()})", f"{value}.view({p.size()}, -1)",
        f"{value}.reshape({p.size()}, {p.size()})", f"{value}.tensor_split({p.chance.choice([2, 3])}, {a})[1]", f"{value}.as_strided(({p.size()}, 2), (1, 1))",
    ])


def slicing(p, to):
    value = p.value(lambda value: value.dim() > 0)
    part = lambda: p.chance.choice(  # noqa: E731
        [":", ":", f":{p.size()}", f"{p.size()}:", "::2", "1:", ":-1", "0", "-1", "None", "...", f"{p.size()} - 1", "1::3", f"-{p.size()}:"]
    )
    parts = [part() for _ in range(p.chance.randint(1, max(value and p.local[value].dim(), 1)))]
    return f"{to} = {value}[{', '.join(parts)}]"


def indexing(p, to):
    value = p.value(lambda value: value.dim() > 0)
    index = p.chance.choice(["torch.tensor([0, 1])", "torch.tensor([[0], [1]])", f"torch.arange({value}.size(0))", "torch.tensor([True, False])", f"{value} > 0", f"{p.value()}"])
    return f"{to} = " + p.chance.choice([
        f"{value}[{index}]", f"{value}[:, {index}]", f"torch.index_select({value}, {p.dim(value)}, torch.tensor([1, 0, 1]))",
        f"torch.gather({value}, 0, torch.zeros_like({value}, dtype=torch.int64))", f"{value}[..., {index}, None]",
        f"torch.take({value}, torch.tensor([0, 1, -1]))", f"F.embedding({p.value()}.clamp(0, 2), torch.arange(12.0).reshape(3, 4))",
        f"F.one_hot({p.value()}.clamp(0, 3), 4)", f"torch.searchsorted(torch.tensor([0.0, 1.0]), {value})", f"torch.bucketize({value}, torch.tensor([0.0, 1.0]))",
    ])


def in_place(p, to):
    value, other = p.value(lambda value: value.dim() > 0), p.operand()
    target = p.chance.choice(["", "[:, 1:]", "[0]", "[..., ::2]", f"[:{p.size()}]", ".transpose(0, -1)", ".view(-1)", "[:, 0]", ".unsqueeze(1)"])
    write = p.chance.choice([
        f"w{target}.add_({other})", f"w{target}.mul_({other})", f"w{target}.zero_()", f"w{target}.fill_({p.number()})", f"w{target}.copy_({p.value()})",
        f"w{target}.clamp_(0, 1)", f"w{target}.neg_()", f"w{target}.masked_fill_(w{target} > 0, {p.number()})", f"w[w > 0] = {p.number()}",
        f"w[:, 0] = {p.number()}", f"w[torch.tensor([0, 1])] = {other}", f"w.index_add_(0, torch.tensor([0, 0]), w[:2])", f"w{target}.relu_()",
        f"w.scatter_(0, torch.zeros_like(w, dtype=torch.int64), {p.number()})", f"w.index_fill_(0, torch.tensor([1]), {p.number()})", f"w{target} += {other}",
        f"w{target}.sub_(w{target}.clone(), alpha=2)", f"w{target}.div_({other})", f"w.t_()", f"w.resize_as_(w)", f"w{target}.logical_not_()",
    ]).replace("w", to)
    before = p.chance.choice([f"{to} = {value}.clone()", f"{to} = {value} + 0", f"{to} = {value}.clone()", f"{to} = {value}.contiguous().clone()"])
    return f"{before}\n{write}"


def branch(p, to):
    a, b = p.chance.choice([unary, binary, slicing, view, reduction]), p.chance.choice([unary, binary, slicing, view])
    yes, no = a(p, to), b(p, to)
    return f"if {p.condition()}:\n    {yes}\nelse:\n    {no}"


def branch_even(p, to):
    name = p.value(lambda value: value.dim() > 0)
    return f"if {name}.size({p.dim(name)}) % 2 == 0:\n    {to} = {name} * 2\nelse:\n    {to} = {name} - 1"


def check(p, to):
    name = p.value(lambda value: value.dim() > 0)
    size = f"{name}.size({p.dim(name)})"
    return f"torch._check({size} {p.chance.choice(['% 2 == 0', '>= 2', '<= 12', '!= 7', '> 1', '% 3 != 2', '* 2 < 20', f'== {p.size()}', f'<= {p.size()}'])})"


def cond(p, to):
    name = p.floating()
    condition = p.chance.choice([f"{name}.sum() > 0", f"{name}.numel() > 6", f"{name}.isnan().any()"])
    yes, no = p.chance.choice([("a + 1", "a - 1"), ("a * 2", "a.clone()"), ("a.sin()", "-a"), ("a.relu()", "a * -0.0")])
    return f"{to} = torch.cond({condition}, lambda a: {yes}, lambda a: {no}, ({name},))"


def constant(p, to):
    size = lambda: p.chance.choice([p.size(), "2", "1"])  # noqa: E731
    dtype = p.chance.choice(["", "", f", dtype={p.chance.choice(DTYPES)}"])
    return f"{to} = " + p.chance.choice([
        f"torch.full(({size()}, {size()}), {p.chance.choice(['True', 'False', p.number()])}{dtype})", f"torch.zeros({size()}{dtype})",
        f"torch.ones(({size()}, 1){dtype})", f"torch.arange({size()}{dtype})", f"torch.arange(0, {size()}, 0.5)", f"torch.linspace(0, 1, {size()})",
        f"torch.eye({size()}{dtype})", f"torch.where({p.value()} > 0, {p.number()}, {p.number()})", f"torch.where({p.value()} > 0, True, False)",
        f"torch.add({p.value()} > 0, True)", f"torch.full_like({p.value()}, {p.number()}{dtype})", f"~torch.full(({size()},), True)",
        f"torch.scalar_tensor({p.number()}{dtype})", f"{p.chance.choice(TENSORS)} * 1", f"{p.value()} * ~torch.tensor(True)",
        f"torch.zeros_like({p.value()}{dtype})", f"{p.value()}.new_full(({size()},), {p.number()})", f"torch.tril(torch.ones({size()}, {size()}{dtype}))",
        f"torch.arange({p.chance.choice(WHOLE[-6:])} - 3, {p.chance.choice(WHOLE[-6:])}, 2**61)", f"F.pad({p.value()}, (1, 2), value={p.number()})",
        f"torch.clamp({p.value()}, {p.number()}, {p.number()})", f"torch.isin({p.value()}, torch.tensor([1, 2]))", f"torch.tensor({size()}) + 0",
        f"torch.bitwise_left_shift({p.value()}, 2)", f"{p.value()}.masked_fill({p.value()} > 0, {p.number()})", f"torch.logspace(0, 1, {size()})",
    ])


def buffer(p, to):
    text = p.chance.choice(TENSORS)
    name = f"c{len(p.setup)}"
    kind = p.chance.choice([f"self.{name} = {text}", f"self.register_buffer('{name}', {text})", f"self.{name} = nn.Parameter({text}, requires_grad=False)"])
    return kind, f"{to} = {p.value()} {p.chance.choice(['+', '*', '-', '/', '==', '<'])} self.{name}"


def cast(p, to):
    value = p.value()
    return f"{to} = {value}.{p.chance.choice(['to', 'to', 'type'])}({p.chance.choice(DTYPES)})"


def joining(p, to):
    a, b = p.value(), p.value()
    return f"{to} = " + p.chance.choice([
        f"torch.cat([{a}, {b}], {p.dim(a)})", f"torch.stack([{a}, {b}])", f"torch.cat([{a}, {a}], {p.dim(a)})", f"torch.where({p.value()} > 0, {a}, {b})",
        f"{a} @ {b}.mT", f"torch.einsum('...i,...i->...', {a}, {b})", f"torch.matmul({a}, {a}.mT)", f"torch.outer({a}.flatten(), {b}.flatten())",
        f"torch.lerp({a}, {b}, 0.3)", f"torch.addcmul({a}, {a}, {b}, value=0.5)", f"torch.cdist({a}, {b})", f"torch.kron({a}, {b})", f"torch.hstack([{a}, {b}])",
        f"F.scaled_dot_product_attention({a}, {a}, {a})", f"F.linear({a}, {b})", f"torch.baddbmm({a}, {a}, {b})", f"F.cosine_similarity({a}, {b}, -1)",
        f"F.interpolate({a}, size={p.size()})", f"torch.topk({a}, 2)[0]", f"torch.topk({a}, {p.size()})[1]", f"torch.addmm({a}, {a}, {b})", f"torch.meshgrid({a}, {b}, indexing='ij')[0]",
    ])


def layer(p, to):
    value = p.floating()
    shape = [*p.local[value].shape] or [1]
    text = p.chance.choice(MODULES * 2 + TUPLE_MODULES + CELLS)
    sizes = {"last": shape[-1], "first": shape[0], "second": shape[1] if len(shape) > 1 else shape[0], "n": p.chance.choice([1, 2, 3, 8])}
    name = f"l{len(p.setup)}"
    mode = p.chance.choice(["eval"] * 9 + ["train"])
    call = {True: f"self.{name}({value}, {value}, {value})[0]"}.get("Multihead" in text, f"self.{name}({value})" + ("[0]" if text in TUPLE_MODULES or "LSTMCell" in text else ""))
    # Running means that are neither 0 nor 1, as of a trained network.
    spread = f"\nfor each in self.{name}.buffers():\n    each.copy_(torch.rand_like(each) + 0.5 if each.is_floating_point() else each)"
    setup = f"self.{name} = {text.format(**sizes)}.{mode}(){spread if 'BatchNorm' in text else ''}"
    return setup, f"{to} = {call}"


def unbacked(p, to):
    value = p.value()
    return p.chance.choice([
        f"{to} = {value}.nonzero()",
        f"s = {value}.numel() // 2\n{to} = torch.zeros(s)",
        f"u = {value}.flatten()[0].to(torch.int64).abs().clamp(0, 3).item()\ntorch._check(u >= 0)\ntorch._check(u <= 3)\n{to} = torch.ones(u)",
        f"{to} = {value}[{value} > 0]",
        f"u = {value}.sum().item()\n{to} = {p.value()} * u",
        f"{to} = torch.unique({value})",
    ])


STEPS = [
    *[unary] * 2, *[function], *[binary] * 5, *[reduction] * 4, *[view] * 4, *[slicing] * 4, *[indexing] * 2, *[in_place] * 3, *[branch] * 3,
    branch_even, *[check] * 2, cond, *[constant] * 4, *[buffer] * 2, *[cast] * 2, *[joining] * 3, *[layer] * 4, unbacked,
]


def guarded(step):
    def tried(p, to):
        try:
            return step(p, to)
        except LookupError:
            return None

    return tried


STEPS = [guarded(step) for step in STEPS]
