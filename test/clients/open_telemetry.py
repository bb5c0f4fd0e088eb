"""Decodes exports of OTLP with the protobuf definitions of OpenTelemetry: `open_telemetry.py FOLDER`, with the bodies in traces-*.bin."""

import sys
from pathlib import Path

from google.protobuf.message import Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

folder = Path(sys.argv[1])


def decoded(kind: type[Message], pattern: str) -> list:
    messages = []
    for file in sorted(folder.glob(pattern)):
        message = kind()
        message.ParseFromString(file.read_bytes())
        size = message.ByteSize()
        message.DiscardUnknownFields()
        assert message.ByteSize() == size, f"{file} has fields that the definitions lack"
        messages.append(message)
    assert messages, pattern
    return messages


resources = [each for message in decoded(ExportTraceServiceRequest, "traces-*.bin") for each in message.resource_spans]
spans = [span for each in resources for scope in each.scope_spans for span in scope.spans]
by_name = {span.name: span for span in spans}
missing = {"POST /predictions", "prediction", "forward"} - by_name.keys()
assert not missing, missing
assert by_name["prediction"].parent_span_id == by_name["POST /predictions"].span_id
assert all(len(span.trace_id) == 16 and len(span.span_id) == 8 for span in spans)
assert by_name["forward"].parent_span_id == by_name["prediction"].span_id

print(len(spans))
