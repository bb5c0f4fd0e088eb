"""A round trip with the Python client that openapi-generator generates."""

import sys

import lab_client
from lab_client.exceptions import NotFoundException
from lab_client.models import Input

with lab_client.ApiClient(lab_client.Configuration(host=sys.argv[1])) as client:
    predictions, demo = lab_client.PredictionsApi(client), lab_client.DemoApi(client)
    inputs = [Input(x=1.5, steps=0)]

    created = predictions.create_prediction(inputs, prefer="wait", cancel_after=30)
    assert created.status == "success" and [output.y for output in created.outputs] == [4]
    assert predictions.get_prediction(created.prediction_id).outputs == created.outputs
    assert predictions.cancel_prediction(created.prediction_id).status == "success"

    failed = predictions.create_prediction([*inputs, Input(x=2, steps=0, fail="preprocess")], prefer="wait")
    assert failed.status == "failed" and [fault.index for fault in failed.errors] == [1]
    assert failed.partial_outputs[0].y == 4 and failed.partial_outputs[1] is None

    shown = demo.create_demo_prediction(inputs, prefer="wait")
    assert [output.y for output in shown.demo_outputs] == [4]
    assert demo.get_demo_prediction(shown.demo_id, prefer="wait=1").logs == shown.logs

    try:
        predictions.get_prediction("none")
        raise AssertionError("an unknown prediction was found")
    except NotFoundException as refusal:
        assert refusal.data.type == "urn:sconce:problem:prediction_not_found"
    assert lab_client.ModelApi(client).get_model().name == "lab"
    assert lab_client.OperationsApi(client).get_readiness().status == "ready"
