"""
Runs scripts in forks of this process, because an import of torch takes seconds.

A line of stdin is JSON of a script and its argument, a folder. When the script has ended, this process writes JSON of the folder and
the script's exit code. The file FOLDER.errors gets the script's stderr.
"""

import json
import os
import runpy
import sys

import torch
import torch._inductor.compile_fx
import torch.export
from torch._inductor.cpu_vec_isa import VecISA

# Otherwise Inductor compiles six programs to test the processor for BF16, VNNI and AMX. AVX-512 remains.
VecISA.check_build = lambda isa, code: False


def report(worker, folder):
    _, status = os.waitpid(worker, 0)
    os.write(1, f"{json.dumps([folder, os.waitstatus_to_exitcode(status)])}\n".encode())
    os._exit(0)


def run(script, folder):
    """Replaces this process by `python3 script folder`."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    errors = os.open(f"{folder}.errors", os.O_WRONLY | os.O_CREAT)
    for own, other in ((0, nowhere), (1, nowhere), (2, errors)):
        os.dup2(other, own)
    sys.argv = [script, folder]
    sys.path[0] = os.path.dirname(script)
    runpy.run_path(script, run_name="__main__")
    sys.exit()


# A fork has only one thread. It would wait for the others for ever.
assert sys.platform != "linux" or len(os.listdir("/proc/self/task")) == 1, "the import of torch started threads"
for line in sys.stdin:
    if os.fork() == 0:
        worker = os.fork()
        if worker == 0:
            run(*json.loads(line))
        report(worker, json.loads(line)[1])
try:
    while True:
        os.wait()
except ChildProcessError:
    pass
