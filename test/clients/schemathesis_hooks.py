"""Gives each request an id or an Idempotency-Key of its own: the server refuses another body under a known one."""

import re
import uuid

import schemathesis

CHOSEN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{15,63}")
KEY = re.compile(r'"?[\x21\x23-\x7e]{16,255}"?')


@schemathesis.hook
def before_call(context, case, kwargs):
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and KEY.fullmatch(key):
        case.headers["Idempotency-Key"] = str(uuid.uuid4())
    if case.method.upper() == "PUT":
        for name, value in (case.path_parameters or {}).items():
            if isinstance(value, str) and CHOSEN_ID.fullmatch(value):
                case.path_parameters[name] = str(uuid.uuid4())
