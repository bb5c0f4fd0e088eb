"""Networks with argmax and topk, examples with near ties, the same networks with other rounding, and wrong ones."""

import os
import sys

import torch
from torch import nn
from torch.export import Dim, export, save

PLACES, BEST, WIDTH, HIDDEN, CLASSES = 8000, 512, 8, 64, 6
FREE = {0: Dim.DYNAMIC}


class Mask(nn.Module):
    """The class of each place, like a segmentation."""

    def __init__(self):
        super().__init__()
        self.hidden, self.classes, self.activation = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, CLASSES), nn.GELU()

    def logits(self, x):
        return self.classes(self.activation(self.hidden(x[..., :WIDTH])))

    def forward(self, x):
        return {"y": self.logits(x).argmax(-1)}


class Rounded(Mask):
    """The batch changes the logits by a millionth, as another order of sums does."""

    def logits(self, x):
        return super().logits(x * (1 + 1e-6 * (x.shape[0] - 1)))


class Mixed(Mask):
    """The mean of the batch moves the logits."""

    def logits(self, x):
        return super().logits(x - 0.1 * x.mean(0))


class Boxes(Mask):
    """The features of the best places, like the boxes of a detector."""

    def forward(self, x):
        scores, places = self.logits(x)[..., 0].sigmoid().topk(BEST)
        boxes = x[..., WIDTH:].gather(1, places[..., None].expand(-1, -1, 4))
        return {"y": boxes, "scores": scores, "places": places}


def reordered(net):
    order = torch.randperm(HIDDEN)
    for tensor in (net.hidden.weight, net.hidden.bias):
        tensor.data = tensor.data[order]
    net.classes.weight.data = net.classes.weight.data[:, order]


def half(net):
    for parameter in net.parameters():
        parameter.data = parameter.data.half().float()


def swapped(net):
    for tensor in (net.classes.weight, net.classes.bias):
        tensor.data = tensor.data[[1, 0, *range(2, CLASSES)]]


def other_activation(net):
    net.activation = nn.GELU("tanh")


def nearly_tied(net, x):
    """Moves one place in 400 to where two classes have nearly equal logits."""
    for place in range(0, PLACES, 400):
        one, other = x[place, :WIDTH].double(), x[(place + 1) % PLACES, :WIDTH].double()
        with torch.no_grad():
            first = net.double().logits(one).argmax()
            for _ in range(40):
                middle = (one + other) / 2
                one, other = (middle, other) if net.logits(middle).argmax() == first else (one, middle)
            net.float()
        x[place, :WIDTH] = one.float()


class Prefill(nn.Module):
    """Runs one item: the batch is fixed at 1."""

    def forward(self, ids):
        return ids.float()[..., None].expand(-1, -1, 4).cumsum(1)


class Step(nn.Module):
    def forward(self, ids, cache):
        longer = torch.cat([cache, ids.float()[:, None, None].expand(-1, 1, 4)], 1)
        return longer.mean((1, 2)), longer


def main(folder):
    os.makedirs(folder)

    def saved(net, example, name, shapes=(FREE,)):
        save(export(net.eval(), example, dynamic_shapes=shapes), os.path.join(folder, f"{name}.pt2"))

    torch.manual_seed(0)
    example = torch.randn(PLACES, WIDTH + 4)
    changes = {"reordered": reordered, "half": half, "swapped": swapped, "activation": other_activation}
    for name, kind in {"mask": Mask, "boxes": Boxes, "rounded": Rounded, "mixed": Mixed}.items():
        for change in ["", *changes] if name in ("mask", "boxes") else [""]:
            torch.manual_seed(1)
            net = kind()
            if name == "mask" and change == "":
                nearly_tied(net, example)
            if change:
                changes[change](net)
            saved(net, (torch.randn(2, PLACES, WIDTH + 4),), f"{name}-{change}" if change else name)
    # Each tenth place has nearly the same score as the next place, and another box.
    paired = example.clone()
    paired[::10, :WIDTH] = paired[1::10, :WIDTH] * (1 + 1e-7 * torch.randn(len(paired[::10]), WIDTH))
    for name, tensor in {"mask": example, "boxes": paired}.items():
        tensor.numpy().tofile(os.path.join(folder, f"{name}.bin"))

    saved(Prefill(), (torch.zeros(1, 5, dtype=torch.int64),), "prefill", ({1: Dim.DYNAMIC},))
    saved(Step(), (torch.zeros(3, dtype=torch.int64), torch.randn(3, 5, 4)), "step", (FREE, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}))


main(sys.argv[1])
