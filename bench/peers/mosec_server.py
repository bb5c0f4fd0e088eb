"""mosec: a worker process behind a server in Rust, with JSON as it comes."""
import socket
import types

from mosec import Server, Worker, protocol

from network import MAX_BATCH, WINDOW_MS, Network


class WholeReads(socket.socket):
    """mosec 0.9.8 takes what one recv() gives for a field of 2 or 4 bytes. A batch that is larger than the socket's buffer comes in
    parts, and where one ends within a field the worker loses its place, closes the socket and cannot open it again: from then on
    nothing is answered. With this, recv() gives all that it was asked for, unless the other side is gone."""

    def recv(self, size):
        data = super().recv(size)
        while 0 < len(data) < size:
            more = super().recv(size - len(data))
            if not more:
                break
            data += more
        return data


# The module's own name for sockets; asyncio and all others keep theirs.
protocol.socket = types.SimpleNamespace(**{**vars(socket), "socket": WholeReads})


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
