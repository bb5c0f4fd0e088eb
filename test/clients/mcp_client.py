"""Calls a model as a tool with the official client, in both revisions of the protocol."""

import asyncio
import json
import sys
import urllib.request

from mcp import Client, MCPError


def post(url: str, inputs: list[object]) -> list[object]:
    headers = {"Content-Type": "application/json", "Prefer": "wait"}
    request = urllib.request.Request(f"{url}/predictions", json.dumps(inputs).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)["outputs"]


async def trip(url: str, mode: str) -> None:
    async with Client(f"{url}/mcp", mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["lab"], tools
        for x in (1 / 3, -0.1, 1e-30):
            result = await client.call_tool("lab", {"x": x})
            assert [result.structured_content] == post(url, [{"x": x}]), result
            assert json.loads(result.content[0].text) == result.structured_content
        failed = await client.call_tool("lab", {"x": 1, "fail": "preprocess"})
        assert failed.is_error and failed.content[0].text == "the model failed in preprocess", failed
        refused = await client.call_tool("lab", {"x": "one"})
        assert refused.is_error and refused.content[0].text.startswith("/x: "), refused
        try:
            await client.call_tool("bal", {})
            raise AssertionError("a tool that does not exist was called")
        except MCPError as error:
            assert '"lab"' in str(error), error


for mode in ("auto", "legacy"):
    asyncio.run(trip(sys.argv[1], mode))
