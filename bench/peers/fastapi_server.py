# /// script
# dependencies = ["fastapi==0.165.0", "uvicorn==0.54.0", "uvloop==0.23.0", "httptools==0.9.0", "numpy==2.4.6"]
# [tool.uv]
# exclude-newer = "2026-11-22T00:00:00Z"
# ///
"""FastAPI with a batcher."""
import asyncio
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from batcher import Batcher
from network import PORT, Network


class Question(BaseModel):
    x: list[float]


class Answer(BaseModel):
    y: list[float]


@asynccontextmanager
async def lifespan(app):
    app.state.batcher = Batcher(Network().of_lists, asyncio.get_running_loop())
    yield


app = FastAPI(lifespan=lifespan)


@app.post("/predict")
async def predict(question: Question) -> Answer:
    return Answer(y=await app.state.batcher(question.x))


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning", access_log=False)
