"""mosec: a worker process behind a server in Rust, with JSON as it comes: it indents what it writes, with a slower encoder. With $PEER_JSON
"msgspec" the JSON is that of this package, which mosec brings along."""
import os
import socket
import types

import msgspec
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


class FastForward(Forward):
    def deserialize(self, data):
        return msgspec.json.decode(data)

    def serialize(self, data):
        return msgspec.json.encode(data)


if __name__ == "__main__":
    server = Server()
    worker = FastForward if os.environ.get("PEER_JSON") == "msgspec" else Forward
    server.append_worker(worker, num=1, max_batch_size=MAX_BATCH, max_wait_time=WINDOW_MS, timeout=60)
    server.run()
