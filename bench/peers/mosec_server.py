# /// script
# dependencies = ["mosec==0.9.8", "msgspec==0.22.0", "numpy==2.4.6"]
# [tool.uv]
# exclude-newer = "2026-11-22T00:00:00Z"
# ///
"""mosec: a worker process behind a server in Rust. JSON comes from msgspec: mosec's own encoder is slower, and indents."""
import socket
import sys
import types

import msgspec
from mosec import Server, Worker, protocol

from network import MAX_BATCH, PORT, WINDOW_MS, Network


class WholeReads(socket.socket):
    """A socket whose recv() returns all requested bytes, unless the connection ends.

    mosec 0.9.8 expects that for fields of 2 or 4 bytes. A batch larger than the socket's buffer arrives in parts. If a part ends
    within a field, the worker closes the socket, cannot reopen it, and answers nothing any more.
    """

    def recv(self, size):
        data = super().recv(size)
        while 0 < len(data) < size:
            more = super().recv(size - len(data))
            if not more:
                break
            data += more
        return data


# Replaces the sockets only in mosec's module `protocol`.
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
    # mosec would log a warning for each client that disconnects at the end of a load, which costs time.
    sys.argv += ["--address", "127.0.0.1", "--port", str(PORT), "--capacity", "2048", "--timeout", "60000", "--log-level", "error"]
    server = Server()
    server.append_worker(
        Forward, num=1, max_batch_size=MAX_BATCH, max_wait_time=WINDOW_MS, timeout=60, route="/predict"
    )
    server.run()
