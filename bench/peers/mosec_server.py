"""mosec: a worker process behind a server in Rust, with JSON as it comes."""
from mosec import Server, Worker

from network import MAX_BATCH, WINDOW_MS, Network


class Forward(Worker):
    def __init__(self):
        self.network = Network()

    def forward(self, data):
        return [{"y": y} for y in self.network.of_lists([each["x"] for each in data])]


def serve(worker):
    server = Server()
    server.append_worker(worker, num=1, max_batch_size=MAX_BATCH, max_wait_time=WINDOW_MS, timeout=60)
    server.run()


if __name__ == "__main__":
    serve(Forward)
