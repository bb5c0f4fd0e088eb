"""Starts the program sconce beside this file, with the torch of this Python."""

import importlib.util
import os
import sys

# Commands that need torch.
RUN_MODELS = {"build", "check", "compile", "dev", "image", "predict", "serve"}


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sconce")
    # Finds torch without importing it, which would take seconds.
    torch = importlib.util.find_spec("torch")
    if not os.environ.get("LIBTORCH"):
        if torch is not None and torch.submodule_search_locations:
            os.environ["LIBTORCH"] = torch.submodule_search_locations[0]
        elif RUN_MODELS.intersection(sys.argv[1:2]):
            print("sconce: this Python has no torch, which runs the models: pip install torch", file=sys.stderr)
    # Puts this Python first on the PATH, because sconce compiles exported programs with the first python3.
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    name = os.path.basename(sys.argv[0])
    os.execv(program, ["python -m sconce_serve" if name == "__main__.py" else name, *sys.argv[1:]])
