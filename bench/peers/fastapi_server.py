"""FastAPI with the batcher that people write for it: a queue, a task that collects from it, one thread for the forward pass."""
import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from network import MAX_BATCH, PORT, WINDOW_MS, Network


class Batcher:
    def __init__(self, run):
        self.run = run
        self.queue = asyncio.Queue()
        self.thread = ThreadPoolExecutor(1)
        self.task = asyncio.create_task(self.serve())

    async def __call__(self, item):
        answer = asyncio.get_running_loop().create_future()
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
        loop = asyncio.get_running_loop()
        while True:
            batch = await self.collect()
            try:
                outputs = await loop.run_in_executor(self.thread, self.run, [item for item, _ in batch])
            except Exception as error:
                outputs = [error] * len(batch)
            for (_, answer), output in zip(batch, outputs):
                if answer.done():
                    continue  # Who asked has left.
                if isinstance(output, Exception):
                    answer.set_exception(output)
                else:
                    answer.set_result(output)


class Question(BaseModel):
    x: list[float]


class Answer(BaseModel):
    y: list[float]


@asynccontextmanager
async def lifespan(app):
    app.state.batcher = Batcher(Network().of_lists)
    yield


app = FastAPI(lifespan=lifespan)


@app.post("/predict")
async def predict(question: Question) -> Answer:
    return Answer(y=await app.state.batcher(question.x))


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning", access_log=False)
