# /// script
# dependencies = ["nvidia-pytriton==0.7.0", "numpy==1.26.4"]
# [tool.uv]
# exclude-newer = "2026-11-22T00:00:00Z"
# ///
"""Triton with the Python backend of nvidia-pytriton: Triton does HTTP and batches, a function here does the forward pass."""
import os
import sysconfig

# PYTRITON_HOME is the folder where pytriton unpacks Triton. Triton's backend is a C++ program that loads libpython
# from LD_LIBRARY_PATH.
os.environ.update(PYTRITON_HOME=os.environ["PEER_HOME"], LD_LIBRARY_PATH=sysconfig.get_config_var("LIBDIR"))

import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

from network import MAX_BATCH, PORT, WINDOW_MS, Network

if __name__ == "__main__":
    network = Network()

    @batch
    def infer(x):
        return {"y": network(x)}

    config = TritonConfig(
        http_address="127.0.0.1",
        http_port=PORT,
        grpc_address="127.0.0.1",
        grpc_port=int(os.environ["PEER_OTHER_PORT"]),
        allow_metrics=False,
    )
    with Triton(config=config) as triton:
        triton.bind(
            model_name="network",
            infer_func=infer,
            inputs=[Tensor(name="x", dtype=np.float32, shape=(network.inputs,))],
            outputs=[Tensor(name="y", dtype=np.float32, shape=(network.outputs,))],
            config=ModelConfig(
                max_batch_size=MAX_BATCH,
                batcher=DynamicBatcher(max_queue_delay_microseconds=WINDOW_MS * 1000),
            ),
        )
        triton.serve()
