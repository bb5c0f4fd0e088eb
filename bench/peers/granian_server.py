# /// script
# dependencies = ["granian==2.8.7", "msgspec==0.22.0", "uvloop==0.23.0", "numpy==2.4.6"]
# [tool.uv]
# exclude-newer = "2026-11-22T00:00:00Z"
# ///
"""granian, a server in Rust, with its interface RSGI, the JSON library msgspec and a batcher; without a framework."""
import asyncio
from concurrent.futures import ThreadPoolExecutor

import msgspec

from network import MAX_BATCH, PORT, WINDOW_MS, Network


class Question(msgspec.Struct):
    x: list[float]


class Answer(msgspec.Struct):
    y: list[float]


class App:
    decoder, encoder = msgspec.json.Decoder(Question), msgspec.json.Encoder()
    headers = [("content-type", "application/json")]

    def __rsgi_init__(self, loop):
        self.queue = asyncio.Queue()
        self.task = loop.create_task(self.serve(loop, Network(), ThreadPoolExecutor(1)))

    async def __rsgi__(self, scope, protocol):
        question = self.decoder.decode(await protocol())
        answer = asyncio.get_running_loop().create_future()
        self.queue.put_nowait((question.x, answer))
        protocol.response_bytes(200, self.headers, self.encoder.encode(Answer(await answer)))

    async def serve(self, loop, network, thread):
        """A usual batcher: waits for the first request, then collects requests within the window, up to a full batch."""
        while True:
            batch = [await self.queue.get()]
            try:
                async with asyncio.timeout(WINDOW_MS / 1000):
                    while len(batch) < MAX_BATCH:
                        batch.append(await self.queue.get())
            except TimeoutError:
                pass
            outputs = await loop.run_in_executor(thread, network.of_lists, [x for x, _ in batch])
            for (_, answer), output in zip(batch, outputs):
                if not answer.done():  # The client may have disconnected.
                    answer.set_result(output)


app = App()

if __name__ == "__main__":
    from granian import Granian
    from granian.constants import Interfaces, Loops

    options = {"interface": Interfaces.RSGI, "loop": Loops.uvloop, "workers": 1, "log_access": False}
    Granian("granian_server:app", address="127.0.0.1", port=PORT, **options).serve()
