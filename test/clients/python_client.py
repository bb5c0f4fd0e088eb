"""A round trip with the client that openapi-python-client generates; it passes `mypy --strict`."""

import sys

from lab_client import Client
from lab_client.api.demo import create_demo_prediction, get_demo_prediction
from lab_client.api.predictions import cancel_prediction, create_prediction, get_prediction
from lab_client.models import DemoPrediction, Input, InputFail, Prediction, Problem

client = Client(base_url=sys.argv[1])
inputs = [Input(x=1.5, steps=0)]

created = create_prediction.sync(client=client, body=inputs, prefer="wait", cancel_after=30)
assert isinstance(created, Prediction) and created.status.value == "success"
assert created.outputs and created.outputs[0].y == 4
read = get_prediction.sync(created.prediction_id, client=client)
assert isinstance(read, Prediction) and read.outputs == created.outputs
canceled = cancel_prediction.sync(created.prediction_id, client=client)
assert isinstance(canceled, Prediction) and canceled.status.value == "success"

wrong = Input(x=2, steps=0, fail=InputFail.PREPROCESS)
failed = create_prediction.sync(client=client, body=[*inputs, wrong], prefer="wait")
assert isinstance(failed, Prediction) and failed.status.value == "failed"
assert failed.errors and [fault.index for fault in failed.errors] == [1]
assert failed.partial_outputs and failed.partial_outputs[1] is None

shown = create_demo_prediction.sync(client=client, body=inputs, prefer="wait")
assert isinstance(shown, DemoPrediction) and shown.demo_outputs and shown.demo_outputs[0].y == 4
again = get_demo_prediction.sync(shown.demo_id, client=client, prefer="wait=1")
assert isinstance(again, DemoPrediction) and again.logs == shown.logs

unknown = get_prediction.sync("none", client=client)
assert isinstance(unknown, Problem) and unknown.status == 404
refused = create_prediction.sync(client=client, body=[Input(x="one", steps=0)])  # type: ignore[arg-type]
assert isinstance(refused, Problem) and refused.errors and refused.errors[0].pointer == "/0/x"
