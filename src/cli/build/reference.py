"""
Runs calls with PyTorch, and compares the given outputs with PyTorch's.

If a difference exceeds rounding, `variants` runs the same call in PyTorch in other ways: without oneDNN, in a batch
twice as large, in float64, with noise as large as rounding after each operator, and with noise before each choice. A
choice rounds floats, or turns floats into integers or bools, as `argmax`, `topk` and comparisons do. The noise before
a choice is as large as the rounding in the other runs. An output differs if more than twice as many elements differ as
between these runs, or if elements differ more than four times as far. Integers may differ where these runs differ, and
in an eighth as many other places. `aligned` repeats this test with each row (second dimension) beside its nearest row,
so that the order of rows does not count.
"""
import json, sys, time, warnings
warnings.simplefilter("ignore")
folder, path, wanted = sys.argv[1:]
try:
    import torch
except ImportError:
    print(json.dumps({"missing": "it has no torch"})); sys.exit()
if torch.__version__.split(".")[:2] != wanted.split(".")[:2]:
    print(json.dumps({"missing": f"its torch is {torch.__version__}, not {wanted}"})); sys.exit()
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils import _pytree as pytree
SECONDS, NOISY_RUNS, ROUNDED_RUNS, MOST_ROWS, MOST_WORK = 60, 8, 4, 1000, 5e8
# Rounding of an operator, as a share of the root mean square of its result: two units in the last place of float32. Zeros stay.
ROUNDED = 2.4e-7
SHARES = {torch.float32: 1e-4, torch.float64: 1e-4, torch.float16: 0.05, torch.bfloat16: 0.05, torch.int8: 0.02, torch.uint8: 0.02}
ROUNDING = {"floor", "ceil", "round", "trunc", "sign", "remainder", "fmod", "floor_divide"}
def loaded():
    """Programs may need types or operators that a package registers when it is imported: ModelOutput, torchvision::nms."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try: return torch.export.load(path)
        except Exception as error: first, reasons = error, [str(each.message) for each in seen]
    for name in ("transformers.modeling_outputs", "torchvision", "torchaudio"):
        try:
            __import__(name)
            return torch.export.load(path)
        except Exception: pass
    why = " ".join([str(first), *reasons]).split("\n")
    print(json.dumps({"missing": "torch.export.load fails in this Python; install the packages whose operators or types the program has, such as torchvision or transformers: " + " ".join(why)[:600]})); sys.exit()
program = loaded()
module = program.module()
torch.set_num_threads(1)
began = time.monotonic()
def tensors_in(value): return [each for each in pytree.tree_leaves(value) if isinstance(each, torch.Tensor)]
def largest(tensor):
    finite = tensor[tensor.isfinite()]
    return finite.abs().max().item() if finite.numel() else 0.0
class Variant(torch.fx.Interpreter):
    def __init__(self, is_wide=False, noise=None, is_rounded=False):
        super().__init__(module)
        self.is_wide, self.noise, self.is_rounded, self.seen = is_wide, noise, is_rounded, []
    def rounded(self, value):
        def one(each):
            if not isinstance(each, torch.Tensor) or each.dtype != torch.float32 or each.numel() == 0: return each
            return each + ROUNDED * each.square().mean().sqrt().nan_to_num(0, 0, 0) * torch.randn_like(each) * (each != 0)
        return pytree.tree_map(one, value) if self.is_rounded else value
    def widened(self, value):
        def one(each):
            if isinstance(each, torch.Tensor): return each.double() if each.dtype == torch.float32 else each
            return torch.float64 if each is torch.float32 else each
        return pytree.tree_map(one, value) if self.is_wide else value
    def placeholder(self, *given): return self.widened(super().placeholder(*given))
    def get_attr(self, *given): return self.widened(super().get_attr(*given))
    def call_function(self, target, args, kwargs):
        args, kwargs = self.widened((args, kwargs))
        result = super().call_function(target, args, kwargs)
        floats = [each for each in tensors_in(args) if each.is_floating_point()]
        name = target._schema.name.split("::")[-1] if hasattr(target, "_schema") and floats else None
        if name in ROUNDING or name and any(not each.is_floating_point() for each in tensors_in(result)):
            self.seen.append([each.double() for each in floats])
            if self.noise is not None:
                noisy = {id(each): each + amount * torch.randn_like(each) for each, amount in zip(floats, self.noise[len(self.seen) - 1])}
                result = super().call_function(target, pytree.tree_map(lambda each: noisy.get(id(each), each), args), kwargs)
        is_view = hasattr(target, "_schema") and any(each.alias_info for each in target._schema.returns)
        return self.widened(result) if is_view else self.rounded(self.widened(result))
def amount(value, others):
    """Noise for a value before a choice: four times the rounding, at most as large as differences that always pass."""
    apart = [(each - value).abs().flatten() for each in others if each.shape == value.shape and each.numel()]
    rounding = max([each.kthvalue(1 + int(0.9 * (len(each) - 1))).values.nan_to_num(0).item() for each in apart], default=0)
    if rounding == 0: return 2.5e-7 * largest(value) if (value != value.round()).any() else 0.0
    return min(4 * rounding, 1e-4 * largest(value))
def variants(flat):
    """Outputs of PyTorch's other runs of a call, as lists of tensors."""
    runs, rows = [], tensors_in(flat)[0].shape[:1]
    def run(args, rows=None, **options):
        if time.monotonic() - began > SECONDS: return
        variant = Variant(**options)
        try:
            outputs = tensors_in(variant.run(*args))
        except Exception:
            return
        def own(each): return each[:rows] if rows is not None and each.shape[:1] == (2 * rows,) else each
        variant.seen = [[own(each) for each in values] for values in variant.seen]
        runs.append(([own(each) for each in outputs], variant.seen))
    run(flat)
    if not runs: return []
    seen = runs[0][1]
    with torch.backends.mkldnn.flags(enabled=False): run(flat)
    if len(rows) == 1: run([torch.cat([each, each]) if isinstance(each, torch.Tensor) and each.shape[:1] == rows else each for each in flat], rows[0])
    torch.set_default_dtype(torch.float64)
    run(flat, is_wide=True)
    torch.set_default_dtype(torch.float32)
    for seed in range(ROUNDED_RUNS):
        torch.manual_seed(seed)
        run(flat, is_rounded=True)
    others = [each[1] for each in runs[1:] if len(each[1]) == len(seen)]
    noise = [[amount(value, [other[i][j] for other in others]) for j, value in enumerate(values)] for i, values in enumerate(seen)]
    for seed in range(NOISY_RUNS if any(map(any, noise)) else 0):
        torch.manual_seed(seed)
        run(flat, noise=noise)
    return [outputs for outputs, _ in runs]
def distance(one, other):
    one, other = one.double(), other.double()
    return torch.where((one == other) | (one.isnan() & other.isnan()), 0.0, (one - other).abs()).nan_to_num(torch.inf, posinf=torch.inf)
def allowed(expected):
    return max(1e-6, SHARES.get(expected.dtype, 0) * largest(expected.double()))
def exceeds(given, expected, others):
    apart, limit = distance(given, expected), torch.tensor(allowed(expected))
    own = torch.stack([distance(each, expected) for each in others]) if others else torch.zeros_like(apart)[None]
    if expected.dtype not in SHARES:
        apart, own = (apart > limit).double(), (own > limit).double()
        tied = own.amax(0) > 0
        if (apart[~tied] > 0).sum() > tied.sum() // 8: return True
    apart, own = apart.flatten().sort(descending=True).values, own.flatten(1).sort(descending=True).values.amax(0)
    return bool((apart > torch.maximum(limit, 4 * own[torch.arange(len(apart)) // 2])).any())
def aligned(given, expected):
    """The outputs with each row beside the nearest row of the expected outputs. A row has all outputs of equal first two sizes."""
    given = list(given)
    for rows in {tuple(each.shape[:2]) for each in expected if each.dim() > 1 and 1 < each.shape[1] <= MOST_ROWS and each.numel() * each.shape[1] <= MOST_WORK}:
        at = [i for i, each in enumerate(expected) if tuple(each.shape[:2]) == rows and given[i].shape == each.shape]
        def keys(tensors): return torch.cat([(tensors[i].double().nan_to_num(0, 0, 0) / (largest(expected[i].double()) or 1)).reshape(*rows, -1) for i in at], 2)
        nearest = torch.cdist(keys(expected), keys(given), p=torch.inf).argmin(2)
        for i in at: given[i] = torch.stack([row[order] for row, order in zip(given[i], nearest)])
    return given
def difference_text(given, expected, others):
    apart = [distance(each, expected).flatten() for each in (given, *others)]
    worst, (count, *own) = apart[0].argmax(), [(each > allowed(expected)).sum().item() for each in apart]
    at = ", ".join(str(each.item()) for each in torch.unravel_index(worst, expected.shape))
    values = " in place of ".join(f"{each.flatten()[worst].item():.7g}" for each in (given, expected))
    text = f"differs from PyTorch's in {count} of {expected.numel()} elements ({100 * count / expected.numel():.3g} %), by up to {apart[0].max().item():.2g} at [{at}] ({values})"
    return f"{text}; {len(own)} other runs of PyTorch (without oneDNN, in another batch, in float64, with other rounding, with near ties decided otherwise) differ in at most {max(own)} elements" if own else text
def differences(given, expected, other_runs):
    """The outputs that differ by more than PyTorch differs from itself, and how many differ by less than that."""
    off = [i for i, (one, other) in enumerate(zip(given, expected)) if one.shape != other.shape or (distance(one, other) > allowed(other)).any()]
    if not off: return {"differing": [], "explained": 0}
    others = other_runs()
    same = [each for each in [expected, *others] if all(one.shape == other.shape for one, other in zip(given, each))]
    base, found = same[0] if same else expected, []
    others = [each for each in others if all(one.shape == other.shape for one, other in zip(base, each))]
    if same: both = [(given, others), (aligned(given, base), [aligned(each, base) for each in others])]
    for i in off:
        shape = list(base[i].shape)
        if given[i].shape != base[i].shape: found.append({"output": i, "text": f"has the sizes {list(given[i].shape)}, and {shape} in PyTorch"})
        elif any(exceeds(ours[i], base[i], [each[i] for each in theirs]) for ours, theirs in both):
            found.append({"output": i, "text": difference_text(given[i], base[i], [each[i] for each in others])})
    return {"differing": found, "explained": len(off) - len(found)}
def tensor(one):
    dtype, data = getattr(torch, one["dtype"]), bytearray(open(f"{folder}/{one['file']}", "rb").read())
    return torch.frombuffer(data, dtype=dtype).reshape(one["shape"]) if data else torch.empty(one["shape"], dtype=dtype)
arguments = [spec.arg for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
def stacked(given):
    """Stacks the tensors of a list where the program takes one tensor. The tensors of the first list are named #0.0, #0.1, …"""
    joined, made = {}, {}
    for name, each in given.items(): joined.setdefault(name.split(".")[0] if name.startswith("#") else name, {})[name] = each
    places = program.call_spec.in_spec.children_specs[0].children_specs
    for i, (place, each) in enumerate(joined.items()):
        is_list = place not in each and i < len(places) and places[i].is_leaf()
        made.update({place: torch.stack(list(each.values()))} if is_list else each)
    return made
def compared(call):
    given = stacked({one["name"]: tensor(one) for one in call["inputs"]})
    in_order = iter(given.values())
    flat = [each.value if isinstance(each, ConstantArgument) else given[each.name] if each.name in given else next(in_order) for each in arguments]
    args, kwargs = pytree.tree_unflatten(flat, program.call_spec.in_spec)
    try:
        with torch.no_grad(): result = module(*args, **kwargs)
    except Exception as error:
        return {"refused": str(error)[:500]}
    if call["outputs"] is None: return {"differing": [], "explained": 0}
    leaves = [(getattr(keys[0], "key", None) if len(keys) == 1 else None, value) for keys, value in pytree.tree_flatten_with_path(result)[0] if value is not None]
    ours = [tensor(one) for one in call["outputs"]]
    places = [next((j for j, (name, _) in enumerate(leaves) if name == one["name"]), i) for i, one in enumerate(call["outputs"])]
    if any(place >= len(leaves) for place in places): return {"differing": [{"output": len(leaves), "text": f"is one of {len(ours)}, and PyTorch has {len(leaves)}"}], "explained": 0}
    def own(outputs): return [cut(outputs[place].detach().contiguous(), one) for place, one in zip(places, ours)]
    def cut(expected, one): return expected[: one.shape[0]] if expected.dim() == one.dim() > 0 and expected.shape[0] == call["rows"] and one.shape[0] < call["rows"] else expected
    expected = own([value for _, value in leaves])
    for i, (one, other) in enumerate(zip(ours, expected)):
        if one.dtype != other.dtype: return {"differing": [{"output": i, "text": f"is {str(one.dtype)[6:]}, and {str(other.dtype)[6:]} in PyTorch"}], "explained": 0}
    with torch.no_grad(): return differences(ours, expected, lambda: [own(each) for each in variants(flat) if len(each) == len(leaves)])
print(json.dumps({"results": [compared(call) for call in json.load(open(f"{folder}/calls.json"))]}))
