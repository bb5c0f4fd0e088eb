# /// script
# dependencies = ["granian==2.8.7", "msgspec==0.22.0", "uvloop==0.23.0", "numpy==2.4.6"]
# [tool.uv]
# exclude-newer = "2026-11-22T00:00:00Z"
# ///
"""granian, a server in Rust, by its own interface RSGI, with the JSON of msgspec and a batcher; no framework in between."""
import msgspec

from batcher import Batcher
from network import PORT, Network


class Question(msgspec.Struct):
    x: list[float]


class Answer(msgspec.Struct):
    y: list[float]


class App:
    decoder, encoder = msgspec.json.Decoder(Question), msgspec.json.Encoder()
    headers = [("content-type", "application/json")]

    def __rsgi_init__(self, loop):
        self.batcher = Batcher(Network().of_lists, loop)

    async def __rsgi__(self, scope, protocol):
        question = self.decoder.decode(await protocol())
        answer = Answer(await self.batcher(question.x))
        protocol.response_bytes(200, self.headers, self.encoder.encode(answer))


app = App()

if __name__ == "__main__":
    from granian import Granian
    from granian.constants import Interfaces, Loops

    Granian(
        "granian_server:app",
        address="127.0.0.1",
        port=PORT,
        interface=Interfaces.RSGI,
        loop=Loops.uvloop,
        workers=1,
        log_access=False,
    ).serve()
