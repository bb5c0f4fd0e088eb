"""Weights that call operators which this torch lacks: torchvision's, and one that no library has."""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim, export, save

vision = torch.ops.torchvision
torch.library.define("torchvision::nms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
torch.library.define(
    "torchvision::roi_align",
    "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
)
torch.library.define(
    "torchvision::deform_conv2d",
    "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
    "bool use_mask) -> Tensor",
)
torch.library.define("nowhere::twice", "(Tensor x) -> Tensor")


@torch.library.register_fake("torchvision::nms")
def _(dets, scores, iou_threshold):
    return dets.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.long)


@torch.library.register_fake("torchvision::roi_align")
def _(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    return input.new_empty(rois.size(0), input.size(1), pooled_height, pooled_width)


@torch.library.register_fake("nowhere::twice")
def _(x):
    return torch.empty_like(x)


class Methods(nn.Module):
    def forward(self, x: Tensor):
        return x

    @torch.jit.export
    def nms(self, boxes: Tensor, scores: Tensor, threshold: float):
        return vision.nms(boxes, scores, threshold)

    @torch.jit.export
    def roi_align(self, x: Tensor, rois: Tensor, scale: float, rows: int, columns: int, ratio: int, aligned: bool):
        return vision.roi_align(x, rois, scale, rows, columns, ratio, aligned)

    @torch.jit.export
    def deform_conv2d(
        self, x: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, stride_h: int, stride_w: int,
        pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int, use_mask: bool,
    ):  # fmt: skip
        return vision.deform_conv2d(
            x, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups,
            offset_groups, use_mask,
        )  # fmt: skip


class Detector(nn.Module):
    """Marks the boxes that nms keeps, and pools the picture of each box."""

    def forward(self, pictures, boxes, scores):
        kept = vision.nms(boxes, scores, 0.5)
        items = torch.arange(boxes.shape[0], dtype=boxes.dtype).unsqueeze(1)
        pooled = vision.roi_align(pictures, torch.cat([items, boxes], 1), 1.0, 2, 2, -1, True)
        return torch.zeros_like(scores).index_fill(0, kept, 1), pooled


class Twice(nn.Module):
    def forward(self, x):
        return torch.ops.nowhere.twice(x)


folder = Path(sys.argv[1])
folder.mkdir(parents=True)
torch.jit.script(Methods()).save(str(folder / "methods.pt"))
torch.jit.script(Twice()).save(str(folder / "twice.pt"))
items = {0: Dim("items")}
example = (torch.rand(3, 1, 4, 4), torch.rand(3, 4), torch.rand(3))
save(export(Detector(), example, dynamic_shapes=(items, items, items)), folder / "detector.pt2")
save(export(Twice(), (torch.rand(2, 3),), dynamic_shapes=(items,)), folder / "twice.pt2")
