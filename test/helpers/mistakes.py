"""Weights with export mistakes, one file for each mistake. Nothing is compiled."""

import os
import sys
import warnings

import torch
from torch import nn
from torch.export import Dim, export, save

FREE = Dim.DYNAMIC


class Rates(nn.Module):
    """Dropout by a function call, which eval() does not switch off."""

    def forward(self, x):
        return nn.functional.dropout(x, 0.5)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, dropout=0.1, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.GRU(4, 2, num_layers=2, dropout=0.1, batch_first=True)

    def forward(self, x):
        return self.layers(x)[0]


class Branch(nn.Module):
    """Dropout inside a `with` statement, which becomes a separate graph."""

    def forward(self, x):
        y = x * 2
        with torch.no_grad():
            return nn.functional.dropout(y, 0.5) + 1


TRAINED = {
    "dropout": nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)),
    "rates": Rates(),
    "attention": Attention(),
    "recurrent": Recurrent(),
    "branch": Branch(),
    "norm": nn.Sequential(nn.Conv1d(4, 4, 1), nn.BatchNorm1d(4)),
    "instance": nn.InstanceNorm1d(4, track_running_stats=True),
    "rrelu": nn.RReLU(),
}
# Programs in evaluation mode, or equal in both modes.
EVALUATED = {
    "dropout": TRAINED["dropout"],
    "recurrent": TRAINED["recurrent"],
    "norm": TRAINED["norm"],
    "untracked": nn.BatchNorm1d(4, track_running_stats=False),
    "instance": nn.InstanceNorm1d(4),
}


class Maximum(nn.Module):
    """The padding value is the maximum if all numbers are negative."""

    def forward(self, x):
        return x.amax(1, keepdim=True)


class LongMixes(nn.Module):
    """Mixes the items of a batch if they have 8 numbers or more."""

    def forward(self, x):
        return x + (x.shape[1] // 8) * x.mean(0)


class Counter(nn.Module):
    """Each run changes two buffers, one of them through a view and without gradients. It only reads the third."""

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(1))
        self.register_buffer("scale", torch.ones(1))
        self.register_buffer("kept", torch.zeros(4))

    def forward(self, x):
        self.steps.add_(1)
        with torch.no_grad():
            self.kept[1:3].add_(1)
        scale = self.scale * 2
        scale.add_(1)
        return x * scale + self.steps + self.kept


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)


class Traced(nn.Module):
    def forward(self, x):
        return x.reshape(2, 2, 2).sum(2)


def main(folder: str) -> None:
    warnings.simplefilter("ignore")
    os.makedirs(folder)
    torch.manual_seed(5)
    x = torch.rand(2, 4, 4)

    def exported(module: nn.Module, name: str) -> None:
        program = export(module, (x,), dynamic_shapes=({0: FREE},))
        save(program, os.path.join(folder, f"{name}.pt2"))
        save(program.run_decompositions(), os.path.join(folder, f"{name}-decomposed.pt2"))

    for name, module in TRAINED.items():
        exported(module.train(), f"training-{name}")
    for name, module in EVALUATED.items():
        exported(module.eval(), f"evaluated-{name}")

    for rows, name in {1: "one", 2: "two", 100: "hundred"}.items():
        save(export(nn.Linear(4, 4).eval(), (torch.rand(rows, 4),)), os.path.join(folder, f"fixed-{name}.pt2"))
    program = export(nn.Linear(4, 4).eval(), (torch.rand(4, 4),), dynamic_shapes=({0: Dim("batch", min=3)},))
    save(program, os.path.join(folder, "three-or-more.pt2"))
    for name, module in {"counter": Counter(), "noise": Noise()}.items():
        save(export(module.eval(), (torch.rand(2, 4),), dynamic_shapes=({0: FREE},)), os.path.join(folder, f"{name}.pt2"))
    torch.jit.trace(Traced(), torch.rand(2, 4)).save(os.path.join(folder, "traced-two.pt"))
    free = ({0: FREE, 1: Dim("length", min=2, max=64)},)
    for name, module in {"maximum": Maximum(), "long-mixes": LongMixes()}.items():
        save(export(module, (torch.rand(2, 4),), dynamic_shapes=free), os.path.join(folder, f"{name}.pt2"))

    state = nn.Linear(2, 2).state_dict()
    checkpoints = {
        "state": state,
        "state-dict": dict(state),
        "nested": {"model": state, "epoch": 3},
        "nested-dict": {"model": dict(state)},
        "lightning": {"epoch": 3, "state_dict": state, "optimizer_states": []},
    }
    for name, checkpoint in checkpoints.items():
        torch.save(checkpoint, os.path.join(folder, f"{name}.pth"))


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
