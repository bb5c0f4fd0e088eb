"""mosec: a worker process behind a server in Rust. Its own JSON is indented, by a slower encoder; msgspec comes with it."""
import msgspec
from mosec import Server, Worker

from network import MAX_BATCH, WINDOW_MS, Network


class Forward(Worker):
    def __init__(self):
        self.network = Network()

    def deserialize(self, data):
        return msgspec.json.decode(data)

    def forward(self, data):
        return [{"y": y} for y in self.network.of_lists([each["x"] for each in data])]

    def serialize(self, data):
        return msgspec.json.encode(data)


if __name__ == "__main__":
    server = Server()
    server.append_worker(Forward, num=1, max_batch_size=MAX_BATCH, max_wait_time=WINDOW_MS, timeout=60)
    server.run()
