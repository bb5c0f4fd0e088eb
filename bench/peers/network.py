"""The common parts of all peers: the network, the largest batch, and the batching window."""
import os
import sys

import numpy as np

# torch comes from the set-up, last in the path: packages of the peer go first.
sys.path.append(os.environ["PEER_TORCH"])
import torch

MAX_BATCH = 64
WINDOW_MS = 5
PORT = int(os.environ["PEER_PORT"])


class Network:
    """A forward pass with one thread."""

    def __init__(self):
        torch.set_num_threads(1)
        network = torch.jit.load(os.environ["PEER_WEIGHTS"]).eval()
        shapes = [parameter.shape for parameter in network.parameters()]
        self.inputs, self.outputs = shapes[0][1], shapes[-1][0]
        self.network = torch.jit.freeze(network)
        # TorchScript compiles code for the batch sizes of its first runs, so the smallest and the largest batch run
        # here.
        for rows in [1, MAX_BATCH] * 3:
            self(np.zeros((rows, self.inputs), np.float32))

    def __call__(self, inputs):
        """float32 [rows, inputs] to float32 [rows, outputs]"""
        with torch.inference_mode():
            return self.network(torch.from_numpy(inputs)).numpy()

    def of_lists(self, inputs):
        return self(np.asarray(inputs, np.float32)).tolist()
