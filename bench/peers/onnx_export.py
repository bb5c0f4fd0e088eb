# /// script
# dependencies = ["onnx==1.23.2", "numpy==2.4.6"]
# [tool.uv]
# exclude-newer = "2026-11-22T00:00:00Z"
# ///
"""onnx_export.py WEIGHTS FILE: a fully connected network of TorchScript as ONNX."""
import os
import sys

sys.path.append(os.environ["PEER_TORCH"])
import torch

network = torch.jit.load(sys.argv[1]).eval()
width = next(network.parameters()).shape[1]
rows = {"x": {0: "rows"}, "y": {0: "rows"}}
names = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": rows}
torch.onnx.export(network, (torch.zeros(1, width),), sys.argv[2], dynamo=False, **names)
