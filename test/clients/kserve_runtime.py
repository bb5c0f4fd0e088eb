"""Checks a ClusterServingRuntime against the types that KServe and Kubernetes publish: no unknown field, no wrong value."""

import sys

import kserve.models
import kubernetes.client.models
import yaml


def type_named(name):
    return getattr(kserve.models, name, None) or getattr(kubernetes.client.models, name, None)


def check(value, name, path):
    name = name.replace("List[", "list[").replace("Dict[str, ", "dict(str, ")
    if name.startswith("list["):
        for i, each in enumerate(value):
            check(each, name[5:-1], f"{path}[{i}]")
        return
    if name.startswith("dict("):
        for key, each in value.items():
            check(each, name[5:-1].split(", ")[1], f"{path}.{key}")
        return
    plain = {"str": str, "int": int, "bool": bool, "object": object}.get(name)
    if plain is not None:
        assert isinstance(value, plain), f"{path} is no {name}"
        return
    model = type_named(name)
    assert model is not None, name
    names = {wire: attribute for attribute, wire in model.attribute_map.items()}
    unknown = set(value) - set(names)
    assert not unknown, f"{path} has {sorted(unknown)}, and {name} has not"
    fields = {names[wire]: each for wire, each in value.items()}
    for attribute, each in fields.items():
        check(each, model.openapi_types[attribute], f"{path}.{attribute}")
    # The constructor raises an error if a required field is missing.
    model(**fields)


with open(sys.argv[1]) as file:
    runtime = yaml.safe_load(file)
assert (runtime["apiVersion"], runtime["kind"]) == ("serving.kserve.io/v1alpha1", "ClusterServingRuntime")
check(runtime, "V1alpha1ClusterServingRuntime", "runtime")
