"""Networks with layers that are packed when they are loaded, and with what must not be done to them; weights.py makes them."""

import copy
import json
import os

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """Writes into what it has, as networks of pictures do."""

    def __init__(self, before: int, after: int, stride: int):
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, 1, 1)
        self.shortcut = nn.Conv2d(before, after, 1, stride)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.second(self.relu(self.norm(self.first(x))))
        y += self.shortcut(x)
        return self.relu(y)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 32, 7, 2, 3), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1), Block(32, 32, 1), Block(32, 64, 2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 10, bias=False),
        )  # fmt: skip

    def forward(self, x):
        return self.body(x)


class Halves(nn.Module):
    """In bfloat16."""

    def __init__(self):
        super().__init__()
        self.residual = Residual().bfloat16()

    def forward(self, x):
        return self.residual(x.to(torch.bfloat16)).to(torch.float32)


class Shapes(nn.Module):
    """Strides, dilations and groups that differ, and pictures alone."""

    def __init__(self):
        super().__init__()
        self.tall = nn.Conv2d(3, 32, (5, 3), stride=(2, 1), padding=(0, 2), dilation=(1, 2))
        self.grouped = nn.Conv2d(32, 48, 3, padding=1, groups=4)
        self.each = nn.Conv2d(48, 96, 3, padding=1, groups=48)

    def forward(self, x):
        return torch.cat([self.each(self.grouped(self.tall(x))), self.each(self.grouped(self.tall(x[0]))).expand(x.size(0), -1, -1, -1)], 1)


class Viewed(nn.Module):
    """Views, and parts, of what a convolution gave."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 32, 3, padding=1)
        self.linear = nn.Linear(32 * 8 * 8, 64)

    def forward(self, x):
        y = self.convolution(x)
        flat = self.linear(y.view(y.size(0), -1))
        first, second = y.chunk(2, 1)
        halves = torch.split(y, [8, 24], 1)
        joined = torch.cat([second[:, :, 1:], first[:, :, 1:]], 1)
        return {"flat": flat, "picture": y, "last": y.permute(0, 2, 3, 1), "joined": joined, "half": halves[0] + first[:, 8:]}


class Asked(nn.Module):
    """Asks how the tensors lie that a convolution gave."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 32, 3, padding=1)

    def forward(self, x):
        y = self.convolution(x)
        parts = y.chunk(2, 1)[1].as_strided((y.size(0), 4, 4), (y.stride(0), 64, 1))
        return {"parts": parts, "picture": y}


class Written(nn.Module):
    """Writes into a view of what a convolution gave."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 32, 3, padding=1)

    def forward(self, x):
        y = self.convolution(x)
        y.view(y.size(0), -1)[:, 0] = 7.0
        return y


class Products(nn.Module):
    """Linear layers that are written otherwise."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(192, 768) / 16)
        self.bias = nn.Parameter(torch.randn(768))

    def forward(self, x):
        flat = x.flatten(1)
        product, scaled = torch.mm(flat, self.weight), torch.addmm(self.bias, flat, self.weight, beta=0.5)
        return product + torch.addmm(self.bias, flat, self.weight) + (x.flatten(2)[:, None] @ self.weight[:64]).mean((1, 2)) + scaled


class Branches(nn.Module):
    """Layers in branches and loops."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 32, 3, padding=1)
        self.second = nn.Conv2d(32, 32, 3, padding=1)
        self.linear = nn.Linear(512, 512)

    def forward(self, x):
        y = self.first(x)
        if bool(x.sum() > 0):
            z = self.second(y).view(x.size(0), -1)
        else:
            z = torch.cat([y, self.second(y)], 1).view(x.size(0), -1)
        for _ in range(x.size(0)):
            y = F.relu(self.second(y)) + 1
        return self.linear(y.view(y.size(0), -1)[:, :512]) + z[:, :512]


class ChannelsLast(nn.Module):
    """Has the channels of a pixel together by itself: of its weights, or of a picture that came so."""

    def __init__(self):
        super().__init__()
        self.plain = nn.Conv2d(3, 32, 3, padding=1)
        self.turned = nn.Conv2d(32, 32, 3, padding=1).to(memory_format=torch.channels_last)

    def forward(self, x):
        rows = x.size(0)
        turned, given = self.turned(self.plain(x)), F.relu(self.plain(x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)))
        pooled, single = F.adaptive_avg_pool2d(self.plain(x), 1), self.plain(x).mean(1, keepdim=True)
        steps = [turned.stride(), given.stride(), (given + self.plain(x)).stride(), pooled.stride(), single.stride()]
        return {
            "turned": turned.permute(0, 2, 3, 1).view(rows, -1),
            "given": given.permute(0, 2, 3, 1).view(rows, -1),
            "steps": torch.tensor(steps, dtype=torch.float32).view(1, -1).expand(rows, -1),
        }


class Strided(nn.Module):
    """Weights that do not lie in the order of their dimensions, or are not all there."""

    def __init__(self):
        super().__init__()
        for name, of in {
            "weight": torch.randn(192, 768).t() / 16, "each": torch.randn(1536, 384)[::2, ::2] / 16, "same": torch.randn(768, 1).expand(-1, 192) / 16,
            "bias": torch.randn(1536)[::2], "one": torch.randn(1).expand(768), "pixel": torch.randn(3, 3, 3, 64).permute(3, 2, 1, 0)[::2] / 4,
        }.items():  # fmt: skip
            self.register_buffer(name, of)

    def forward(self, x):
        flat = x.flatten(1)
        linear = F.linear(flat, self.weight, self.bias) + F.linear(flat, self.each, self.one) + F.linear(flat, self.same)
        return {"linear": linear + torch.addmm(self.bias, flat, self.weight.t()), "picture": F.conv2d(x, self.pixel, self.bias[:32])}


class WrittenInto(nn.Module):
    """Writes what has another dtype than what it is written into."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 32, 3, padding=1)
        self.register_buffer("precise", torch.randn(32, 1, 1, dtype=torch.float64))

    def forward(self, x):
        y = self.convolution(x)
        y += self.precise
        positive = self.convolution(x)
        positive.gt_(0)
        return y - positive


class Aliased(nn.Module):
    """Writes into results that are their very input, though their operators do not say so."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 32, 3, padding=1)

    def forward(self, x):
        dropped, same, turned = self.convolution(x), self.convolution(x), self.convolution(x)
        kept, given, view = F.dropout2d(dropped, 0.5, False), same.type_as(x), torch.einsum("nchw->nchw", turned)
        return {"dropped": kept.relu_() + dropped, "same": given.relu_() + same, "turned": view.relu_() + turned}


class Spread(nn.Module):
    """Inputs that do not lie one after the other, one row, none at all, and values that are no numbers."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(192, 768)
        self.convolution = nn.Conv2d(3, 32, 3, padding=1)
        self.weight = nn.Parameter(torch.randn(192, 768) / 16)

    def forward(self, x):
        flat = x.flatten(1)
        rows = [
            self.linear(flat[0]).expand(4, -1), torch.matmul(flat[1], self.weight).expand(4, -1), self.linear(flat[:1].expand(4, -1)),
            torch.mm(flat.t().contiguous().t(), self.weight), torch.cat([self.linear(flat[:0]), self.linear(flat)]),
            torch.addmm(self.linear.bias, flat[:1].expand(4, -1), self.weight),
        ]  # fmt: skip
        pictures = [self.convolution(x[:1].expand(4, -1, -1, -1)), self.convolution(x.transpose(2, 3)), self.convolution(x[:, :, ::2, 1::2])]
        infinite = self.convolution(x * (x > 2) / 0.0)
        small = torch.cat([self.convolution(x[:0]), infinite.isnan().float() + infinite.isinf().float() * 2])
        return {"rows": torch.cat(rows, 1), "first": pictures[0], "second": pictures[1], "third": pictures[2], "strange": small}


class Given(nn.Module):
    """Has results put where it says."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(192, 768) / 16)

    def forward(self, x):
        y = torch.zeros(x.size(0), 768)
        torch.mm(x.flatten(1), self.weight, out=y)
        return y


class Scales(nn.Module):
    """One convolution for several sizes of pictures, as detection has it: where oneDNN wants its weights differs with the size."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 160, 1)
        self.second = nn.Conv2d(160, 640, 1)

    def forward(self, x):
        wide = self.first(x)
        large, small = self.second(F.adaptive_avg_pool2d(wide, 28)), self.second(F.adaptive_avg_pool2d(wide, 14))
        return torch.stack([large.mean((2, 3)), small.mean((2, 3)), self.second(wide).mean((2, 3))], 1)


class Squeezed(nn.Module):
    """Convolves pictures of one pixel, as squeeze-and-excitation does."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 960, 1)
        self.squeeze = nn.Conv2d(960, 480, 1)

    def forward(self, x):
        return self.squeeze(F.adaptive_avg_pool2d(F.relu(self.first(x)), 1)).flatten(1)


class Stopped(nn.Module):
    """No layer: libtorch refuses it when it is run."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32, 3, 3, 3))

    def forward(self, x):
        return F.conv2d(x, self.weight, stride=0)


class TooLarge(nn.Module):
    """Writes what does not have the shape of what it is written into."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 32, 3, padding=1)

    def forward(self, x):
        y = self.convolution(x).mean(1, keepdim=True)
        y += self.convolution(x)
        return y


class Vast(nn.Module):
    """Large once it is packed, which its file is not."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randn(1).expand(4096, 4096))

    def forward(self, x):
        return F.linear(x, self.weight)


NETWORKS = [Residual, Halves, Shapes, Viewed, Asked, Written, Products, Branches, ChannelsLast, Strided, WrittenInto, Aliased, Spread, Given, Scales, Squeezed]
ALONE = [Stopped, TooLarge, Vast]


def main(folder: str) -> None:
    os.makedirs(folder)
    known = {}
    for kind in NETWORKS:
        torch.manual_seed(5)
        network, x = kind().eval(), torch.randn(4, 3, 8, 8)
        with torch.inference_mode():
            given = network(x)
        given = given if isinstance(given, dict) else {"y": given}
        as_json = lambda tensor: {"shape": list(tensor.shape), "data": tensor.flatten().tolist()}
        known[kind.__name__] = {name: as_json(each) for name, each in {**given, "x": x}.items()}
        if kind is Squeezed:
            with torch.inference_mode():
                known["exact"] = {"y": as_json(copy.deepcopy(network).double()(x.double()))}
        torch.jit.script(network).save(os.path.join(folder, f"{kind.__name__}.pt"))
    for kind in ALONE:
        torch.jit.script(kind().eval()).save(os.path.join(folder, f"{kind.__name__}.pt"))
    torch.manual_seed(5)
    network, x = Residual().eval(), torch.randn(4, 3, 8, 8)
    torch.jit.trace(network, x).save(os.path.join(folder, "traced.pt"))
    free = {0: torch.export.Dim("rows", min=1, max=64)}
    program = torch.export.export(network, (x,), dynamic_shapes={"x": free})
    torch.export.save(program, os.path.join(folder, "exported.pt2"))
    torch.export.save(program.run_decompositions(), os.path.join(folder, "decomposed.pt2"))
    with open(os.path.join(folder, "layers.json"), "w") as out:
        json.dump(known, out)
