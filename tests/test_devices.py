"""Several devices: the same numbers as on one, whichever seeds each of them gets; cores as devices."""

import os
import subprocess
import sys
from pathlib import Path

from safedsr import storage

TRAIN = """
import sys, jax
from tiny import tiny_job
from safedsr.train import Stopped, resume, train

algorithm, seeds, stop, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
job = tiny_job(algorithm, "SCG", "S.C\\n..G", seeds=tuple(range(seeds)), steps=80)

def show(progress):
    if progress.step == stop:
        open(f"{out}/stop", "w").close()

try:
    train(job, out, show)
except Stopped:
    pass
print(jax.device_count())
"""
RESUME = "import sys; from safedsr.train import resume; resume(sys.argv[1])"
ENVIRONMENT = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}


def python(code, *args, devices=1):
    """Run code in a process with that many devices; gives what it printed."""
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    command = [sys.executable, "-c", code, *map(str, args)]
    done = subprocess.run(
        command, cwd=Path(__file__).parent, env={**os.environ, **flags, **ENVIRONMENT, **flags}, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def last_state(folder):
    (path,) = (folder / "checkpoint").glob("state-*.safetensors")
    return storage.read_tensors(path)
