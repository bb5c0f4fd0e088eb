"""tungstenkit's model of the smallest network: its inputs have no lists, so each number is a field. Its command line serves it."""
from typing import List

from tungstenkit import BaseIO, define_model

from network import MAX_BATCH, Network


class Input(BaseIO):
    a: float
    b: float
    c: float
    d: float


class Output(BaseIO):
    y: List[float]


@define_model(input=Input, output=Output, batch_size=MAX_BATCH)
class Model:
    def setup(self):
        self.network = Network()

    def predict(self, inputs):
        return [Output(y=y) for y in self.network.of_lists([[each.a, each.b, each.c, each.d] for each in inputs])]
