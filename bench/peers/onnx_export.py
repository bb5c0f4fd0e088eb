"""onnx_export.py WEIGHTS FILE: a fully connected network of TorchScript as ONNX."""
import sys

import torch

network = torch.jit.load(sys.argv[1]).eval()
width = next(network.parameters()).shape[1]
rows = {"x": {0: "rows"}, "y": {0: "rows"}}
names = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": rows}
torch.onnx.export(network, (torch.zeros(1, width),), sys.argv[2], dynamo=False, **names)
