"""Clients of OpenAI's and Cohere's APIs beside POST /predictions: `openai_client.py EMBEDDINGS_URL MODEL RERANK_URL MODEL`.

The second server has the test model `texts`.
"""

import asyncio
import json
import sys
from typing import Any
from urllib.request import Request, urlopen

import cohere
import openai
from langchain_openai import OpenAIEmbeddings
from llama_index.embeddings.openai_like import OpenAILikeEmbedding

url, model, rerank_url, rerank_model = sys.argv[1:]
TEXTS = ["A torch needs a bracket.", "", "漢字 😀"]


def predictions(base: str, inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    headers = {"Content-Type": "application/json", "Prefer": "wait"}
    request = Request(f"{base}/predictions", json.dumps(inputs).encode(), headers)
    with urlopen(request) as answer:
        return json.load(answer)["outputs"]


# Warm-up: TorchScript compiles a graph for each shape during the first runs, and compiled graphs round sums
# differently.
for inputs in [[text] for text in TEXTS] * 20 + [TEXTS] + [[text] for text in TEXTS] * 10:
    predictions(url, [{"text": text} for text in inputs])
# The last bits of sums depend on the batch size, so each request has one text.
expected = [predictions(url, [{"text": text}])[0]["embedding"] for text in TEXTS]


def same(vectors: list[list[float]], what: str) -> None:
    assert vectors == expected, f"{what}: the numbers differ from those of POST /predictions"
    print(f"✓ {what}: equal to POST /predictions")


client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
# Without encoding_format, OpenAI's client requests base64.
same([client.embeddings.create(model=model, input=text).data[0].embedding for text in TEXTS], "openai, base64")
floats = [client.embeddings.create(model=model, input=text, encoding_format="float") for text in TEXTS]
same([answer.data[0].embedding for answer in floats], "openai, float")
assert floats[0].usage.total_tokens == 8, floats[0].usage
assert len(client.embeddings.create(model=model, input=TEXTS).data) == len(TEXTS)
assert [each.id for each in client.models.list()] == [model] and client.models.retrieve(model).id == model

for wrong in ({"dimensions": 5}, {"input": []}):
    try:
        client.embeddings.create(**{"model": model, "input": "a", **wrong})
        raise AssertionError(f"{wrong} was accepted")
    except openai.BadRequestError as error:
        assert error.type == "invalid_request_error" and error.param == next(iter(wrong)), error
try:
    client.embeddings.create(model="text-embedding-3-small", input="a")
    raise AssertionError("another model was found")
except openai.NotFoundError as error:
    assert error.code == "model_not_found" and error.request_id, error


async def with_asyncio() -> list[list[float]]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as client:
        return [(await client.embeddings.create(model=model, input=text)).data[0].embedding for text in TEXTS]


same(asyncio.run(with_asyncio()), "openai, asyncio")

langchain: dict[str, Any] = {"model": model, "base_url": f"{url}/v1", "api_key": "none"}
embeddings = OpenAIEmbeddings(check_embedding_ctx_length=False, **langchain)
same([embeddings.embed_query(text) for text in TEXTS], "langchain-openai")
assert len(embeddings.embed_documents(TEXTS)) == len(TEXTS)
# By default LangChain sends token ids of OpenAI's tokenizer, which it downloads. sconce must refuse such ids and
# name LangChain's option.
try:
    client.embeddings.create(model=model, input=[[32, 30642]])
    raise AssertionError("foreign token ids were accepted")
except openai.BadRequestError as error:
    assert "check_embedding_ctx_length=False" in error.message, error

llama = OpenAILikeEmbedding(model_name=model, api_base=f"{url}/v1", api_key="none", max_retries=0)
same([llama.get_text_embedding(text) for text in TEXTS], "llama-index, openai-like")
assert len(llama.get_text_embedding_batch(TEXTS)) == len(TEXTS)

documents = ["xyz", "torch", "a torch and a bracket"]
query = "A torch needs a bracket."
scores = [each["score"] for each in predictions(rerank_url, [{"text": query, "document": each} for each in documents])]
ranked = sorted(range(len(documents)), key=lambda i: -scores[i])
for name, made in (("Client", cohere.Client), ("ClientV2", cohere.ClientV2)):
    answer = made(api_key="none", base_url=rerank_url).rerank(model=rerank_model, query=query, documents=documents)
    assert [(each.index, each.relevance_score) for each in answer.results] == [(i, scores[i]) for i in ranked], answer
    best = made(api_key="none", base_url=rerank_url).rerank(
        model=rerank_model, query=query, documents=documents, top_n=1
    )
    assert [each.index for each in best.results] == ranked[:1], best
    print(f"✓ cohere, {name}.rerank: equal to POST /predictions")
