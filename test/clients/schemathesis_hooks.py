"""
Gives each request another id or Idempotency-Key: the server refuses another body under a known one. Leaves out forms that
the server cannot see whole.
"""

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


@schemathesis.hook
def filter_case(context, case):
    # A form sends no part for an empty list, so the server gets a valid form without the field.
    is_form = case.media_type == "multipart/form-data" and isinstance(case.body, dict)
    return not (is_form and [] in case.body.values())
