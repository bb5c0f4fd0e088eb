"""mean.py FOLDER: the mean of each channel of a picture as FOLDER/weights.pt: a model that costs next to nothing."""
import os
import sys

import torch


class Mean(torch.nn.Module):
    def forward(self, image):
        return image.float().mean((2, 3))


path = os.path.join(sys.argv[1], "weights.pt")
# Renamed into place: where it lies, all of it was made.
torch.jit.script(Mean().eval()).save(path + ".part")
os.replace(path + ".part", path)
