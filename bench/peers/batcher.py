"""The batcher that people write for asyncio: a queue, a task that collects from it, one thread for the forward pass."""
import asyncio
from concurrent.futures import ThreadPoolExecutor

from network import MAX_BATCH, WINDOW_MS


class Batcher:
    def __init__(self, run, loop):
        self.run = run
        self.loop = loop
        self.queue = asyncio.Queue()
        self.thread = ThreadPoolExecutor(1)
        self.task = loop.create_task(self.serve())

    async def __call__(self, item):
        answer = self.loop.create_future()
        self.queue.put_nowait((item, answer))
        return await answer

    async def collect(self):
        """The first that comes, and what comes within the window, until the batch is full."""
        batch = [await self.queue.get()]
        try:
            async with asyncio.timeout(WINDOW_MS / 1000):
                while len(batch) < MAX_BATCH:
                    batch.append(await self.queue.get())
        except TimeoutError:
            pass
        return batch

    async def serve(self):
        while True:
            batch = await self.collect()
            try:
                outputs = await self.loop.run_in_executor(self.thread, self.run, [item for item, _ in batch])
            except Exception as error:
                outputs = [error] * len(batch)
            for (_, answer), output in zip(batch, outputs):
                if answer.done():
                    continue  # Who asked has left.
                if isinstance(output, Exception):
                    answer.set_exception(output)
                else:
                    answer.set_result(output)
