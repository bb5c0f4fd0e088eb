"""A round trip with the client that openapi-python-client generates for an example: `example_client.py NAME URL`."""

import json
import sys
from importlib import import_module
from typing import Any
from urllib.request import urlopen

name, url = sys.argv[1:]
package = f"{name}_client"
models: Any = import_module(f"{package}.models")
client = import_module(package).Client(base_url=url)
with urlopen(f"{url}/openapi.json") as response:
    paths = json.load(response)["paths"]

for path, operation in (("/predictions", "predictions.create_prediction"), ("/demo", "demo.create_demo_prediction")):
    example = paths[path]["post"]["requestBody"]["content"]["application/json"]["example"]
    inputs = [models.Input.from_dict(each) for each in example]
    create = import_module(f"{package}.api.{operation}").sync
    created = create(client=client, body=inputs, prefer="wait")
    assert created.status.value == "success", created
    assert [type(output) for output in created.outputs] == [models.Output], created
