"""Triton's and KServe's clients against the model of test/helpers/tensor-model.ts: JSON, binary, every dtype, async, compressed requests, errors.

Arguments: the server's host and port, the model's name.
"""

import asyncio
import sys

import ml_dtypes
import numpy as np
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from kserve import InferInput, InferRequest, InferenceRESTClient, RESTConfig
from tritonclient.utils import InferenceServerException

address, model = sys.argv[1:]
texts = np.array(["ä".encode(), b""], dtype=np.object_)
rows = {
    "fp32": ("FP32", np.arange(12, dtype=np.float32).reshape(2, 3, 2) / 7),
    "fp64": ("FP64", np.array([[0.1, 1e300], [-5e-324, 4]])),
    "fp16": ("FP16", np.array([[1, 0.1], [65504, -2]], dtype=np.float16)),
    "bf16": ("BF16", np.array([[1, 0.1], [3, -2]], dtype=ml_dtypes.bfloat16)),
    "int8": ("INT8", np.array([[-128, 127], [0, 1]], dtype=np.int8)),
    "int16": ("INT16", np.array([[-(2**15), 2**15 - 1], [0, 1]], dtype=np.int16)),
    "int32": ("INT32", np.array([[-(2**31), 2**31 - 1], [0, 1]], dtype=np.int32)),
    "int64": ("INT64", np.array([[1 - 2**53, 2**53 - 1], [0, 1]], dtype=np.int64)),
    "uint8": ("UINT8", np.array([[255, 0], [1, 2]], dtype=np.uint8)),
    "bool": ("BOOL", np.array([[True, False], [False, True]])),
    "number": ("FP64", np.array([0.1, 1e-9])),
    "whole": ("INT64", np.array([7, -7])),
    "flag": ("BOOL", np.array([True, False])),
    "list": ("FP64", np.arange(8, dtype=np.float64).reshape(2, 2, 2) / 3),
    "text": ("BYTES", texts),
    "file": ("BYTES", np.array([b"\xff\x00", b"data:text/plain;base64,Yg=="], dtype=np.object_)),
    "any": ("BYTES", np.array([b'{"a":1}', b"{}"], dtype=np.object_)),
}
# An output file comes back as bytes, also if the input was a data URI.
expected = {name: value for name, (_, value) in rows.items()} | {
    "file": np.array([b"\xff\x00", b"b"], dtype=np.object_)
}
# In a JSON request, a file is a URL, such as a data URI.
in_json = rows | {"file": ("BYTES", np.array([b"data:,a", b"data:,b"], dtype=np.object_))}


def same(value, name):
    wanted = expected[name]
    assert value.shape == wanted.shape, (name, value.shape)
    assert value.tobytes() == wanted.astype(value.dtype).tobytes() if value.dtype != np.object_ else list(value) == list(wanted), (name, value)


# Values that a JSON request cannot carry exactly, so the client sends them in binary.
exact = {
    "fp32": ("FP32", np.array([[[np.nan, np.inf]], [[-np.inf, -0.0]]], dtype=np.float32)),
    "int64": ("INT64", np.array([[2**53 + 1, -(2**63)], [2**63 - 1, 0]], dtype=np.int64)),
}


def check_exact(client):
    inputs = []
    for name, (datatype, value) in (rows | exact).items():
        inputs.append(triton.InferInput(name, list(value.shape), datatype).set_data_from_numpy(value))
    result = client.infer(model, inputs)
    for name, (_, value) in exact.items():
        assert result.as_numpy(name).tobytes() == value.tobytes(), name


def triton_inputs(library, binary):
    made = []
    for name, (datatype, value) in (rows if binary else in_json).items():
        # Triton's client sends 16-bit floats in binary only.
        is_binary = binary or datatype in ("FP16", "BF16")
        made.append(library.InferInput(name, list(value.shape), datatype).set_data_from_numpy(value, binary_data=is_binary))
    return made


def check(result, binary):
    for name in rows:
        if name == "file" and not binary:
            continue
        value = result.as_numpy(name)
        if not binary and value.dtype == np.object_:
            value = np.array([text.encode() for text in value], dtype=np.object_)
        same(value, name)


def try_triton():
    client = triton.InferenceServerClient(address)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(model)
    metadata = client.get_model_metadata(model)
    version = metadata["versions"][0]
    assert client.is_model_ready(model, version)
    assert [tensor["name"] for tensor in metadata["inputs"]] == [*rows, "note"]
    assert client.get_model_config(model)["max_batch_size"] == 4
    assert client.get_model_repository_index() == [{"name": model, "version": version, "state": "READY"}]
    assert client.get_server_metadata()["name"] == "sconce"
    check(client.infer(model, triton_inputs(triton, True)), True)
    outputs = [triton.InferRequestedOutput(name, binary_data=False) for name in rows]
    check(client.infer(model, triton_inputs(triton, False), outputs=outputs), False)
    outputs = [triton.InferRequestedOutput(name, binary_data=True) for name in ("text", "fp32")]
    mixed = client.infer(model, triton_inputs(triton, False), outputs=outputs, request_id="mine", model_version=version)
    assert mixed.get_response()["id"] == "mine"
    assert [output["name"] for output in mixed.get_response()["outputs"]] == ["text", "fp32"]
    same(mixed.as_numpy("fp32"), "fp32")
    # The server does not compress answers, and the client reads an answer by its Content-Encoding, whatever it asked for.
    for algorithm in ("gzip", "deflate"):
        options = {"request_compression_algorithm": algorithm, "response_compression_algorithm": algorithm}
        check(client.infer(model, triton_inputs(triton, True), **options), True)
    check_exact(client)
    waiting = [client.async_infer(model, triton_inputs(triton, True)) for _ in range(8)]
    for each in waiting:
        check(each.get_result(), True)
    for change, message in (
        ({"inputs": triton_inputs(triton, True)[1:]}, "input 'fp32' of model"),
        ({"model_name": "other"}, "unknown model: 'other'"),
        ({"sequence_id": 3}, "sequence_id: this server does not support it"),
    ):
        try:
            client.infer(**({"model_name": model, "inputs": triton_inputs(triton, True)} | change))
        except InferenceServerException as error:
            assert message in error.message(), error
        else:
            raise AssertionError(f"expected an error with {message}")
    client.close()


async def try_triton_aio():
    async with triton_aio.InferenceServerClient(address) as client:
        assert await client.is_server_ready()
        results = await asyncio.gather(*(client.infer(model, triton_inputs(triton_aio, True)) for _ in range(8)))
        for result in results:
            check(result, True)


def kserve_request(binary):
    made = []
    for name, (datatype, value) in (rows if binary else in_json).items():
        # KServe's client has no BF16, so its values are sent as a list.
        if datatype == "BF16":
            data = [element.item() for element in value.astype(np.float32).flatten()]
            made.append(InferInput(name, list(value.shape), datatype, data=data))
            continue
        tensor = InferInput(name, list(value.shape), datatype)
        tensor.set_data_from_numpy(value, binary_data=binary or datatype == "FP16")
        made.append(tensor)
    return InferRequest(model_name=model, infer_inputs=made, request_id="mine")


async def try_kserve():
    client = InferenceRESTClient(RESTConfig(protocol="v2"))
    url = f"http://{address}"
    assert await client.is_server_live(url) and await client.is_server_ready(url)
    assert await client.is_model_ready(url, model)
    for binary in (True, False):
        response = await client.infer(url, kserve_request(binary), model_name=model)
        assert response.id == "mine" and response.model_name == model
        for output in response.outputs:
            if output.name in ("note", "bf16", "file"):
                continue
            value = output.as_numpy()
            if value.dtype == np.object_:
                value = np.array([text if isinstance(text, bytes) else text.encode() for text in value], dtype=np.object_)
            same(value, output.name)
    try:
        await client.infer(url, {"inputs": []}, model_name=model)
    except Exception as error:
        assert "input 'fp32' of model" in str(error), error
    else:
        raise AssertionError("expected an error")
    await client.close()


try_triton()
asyncio.run(try_triton_aio())
asyncio.run(try_kserve())
