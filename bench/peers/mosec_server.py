# /// script
# dependencies = ["mosec==0.9.8", "msgspec==0.22.0", "numpy==2.4.6"]
# [tool.uv]
# exclude-newer = "2026-11-22T00:00:00Z"
# ///
"""mosec: a worker process behind a server in Rust. JSON is that of msgspec: mosec's own indents what it writes, with a slower encoder."""
import socket
import sys
import types

import msgspec
from mosec import Server, Worker, protocol

from network import MAX_BATCH, PORT, WINDOW_MS, Network


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

    def deserialize(self, data):
        return msgspec.json.decode(data)

    def serialize(self, data):
        return msgspec.json.encode(data)

    def forward(self, data):
        return [{"y": y} for y in self.network.of_lists([each["x"] for each in data])]


if __name__ == "__main__":
    # mosec logs disconnected clients, and all clients disconnect at the end of a load. Their log lines are not
    # measured.
    sys.argv += ["--address", "127.0.0.1", "--port", str(PORT), "--capacity", "2048", "--timeout", "60000", "--log-level", "error"]
    server = Server()
    server.append_worker(
        Forward, num=1, max_batch_size=MAX_BATCH, max_wait_time=WINDOW_MS, timeout=60, route="/predict"
    )
    server.run()
