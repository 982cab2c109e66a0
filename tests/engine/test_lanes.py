"""Several devices: bit for bit what one gives, whichever lanes each of them gets; cores as devices."""

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from safedsr.core.config import Matmul
from safedsr.core.precision import precision
from safedsr.engine import lanes as devices
from safedsr.engine.lanes import cores, one_by_one, split, use_cores
from safedsr.runs import storage

TRAIN = """
import sys, jax
from tiny import tiny_job
from safedsr.engine.train import Stopped, train

algorithm, seeds, stop, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
job = tiny_job(algorithm, "SCG", seeds=tuple(range(seeds)), steps=80)

def show(progress):
    if progress.step == stop:
        open(f"{out}/stop", "w").close()

try:
    train(job, out, show)
except Stopped:
    pass
"""
RESUME = "import sys; from safedsr.engine.train import resume; resume(sys.argv[1])"
CORES = """
import jax
from safedsr.engine.lanes import use_cores
from safedsr.engine.program import Program
use_cores(2)
from tiny import tiny_job
program = Program(tiny_job("safedqn"))
print(jax.device_count(), len(jax.tree.leaves(program.init())[0].sharding.device_set))
"""


def python(code, *args, devices=None, **variables):
    """Run code in a process with that many devices; gives what it printed.

    With a number of devices, XLA_FLAGS of the tests do not hold: the quicker code generator rounds some sums
    otherwise in a program for two devices than in one for one.
    """
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"} if devices else {}
    environment = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1", **flags, **variables}
    command = [sys.executable, "-W", "error", "-c", code, *map(str, args)]
    done = subprocess.run(command, cwd=Path(__file__).parent.parent, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def contents(folder):
    """The last state and the episodes of a run."""
    (path,) = (folder / "checkpoint").glob("state-*.safetensors")
    arrays, about = storage.read_tensors(path)
    assert about["step"] == "80"
    table = storage.read_table(folder / "episodes")
    assert table and len(table[0]["seed"])
    return {**arrays, **table[0]}


def require_equal(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_three_seeds_on_two_devices_give_bit_for_bit_what_they_give_on_one(tmp_path):
    for count in (1, 2):
        python(TRAIN, "safedqn", 3, -1, tmp_path / str(count), devices=count)
    require_equal(contents(tmp_path / "1"), contents(tmp_path / "2"))


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_devices(tmp_path):
    python(TRAIN, "safedqn", 2, -1, tmp_path / "straight", devices=1)
    for first, then in ((1, 2), (2, 1)):
        out = tmp_path / f"{first}{then}"
        python(TRAIN, "safedqn", 2, 40, out, devices=first)
        python(RESUME, out, devices=then)
        require_equal(contents(tmp_path / "straight"), contents(out))


def test_cores_become_devices_before_the_first_computation():
    count = min(cores(), 2)
    assert python(CORES).split() == [str(count), str(count)]


@pytest.mark.parametrize(
    "variables", [{"JAX_NUM_CPU_DEVICES": "3"}, {"XLA_FLAGS": "--xla_force_host_platform_device_count=3"}]
)
def test_a_number_of_devices_that_was_chosen_stays(variables):
    code = "import jax; from safedsr.engine.lanes import use_cores; use_cores(2); print(jax.device_count())"
    assert python(code, **variables).split() == ["3"]


def test_after_the_first_computation_devices_stay_as_they_are():
    before = jax.devices()
    use_cores(2)
    assert jax.devices() == before


def test_cores_are_those_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    assert cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores() == os.cpu_count()


@pytest.mark.parametrize(
    ("environments", "seeds", "count", "expected"),
    [
        (1, 10, 1, (1, 1)),
        (1, 10, 2, (1, 2)),
        (1, 10, 8, (1, 5)),  # with eight, two of them would have two seeds all the same
        (1, 7, 2, (1, 2)),  # four and three seeds
        (6, 1, 4, (3, 1)),
        (6, 10, 4, (2, 2)),
        (2, 3, 64, (2, 3)),
    ],
)
def test_the_fewest_devices_that_are_quickest(environments, seeds, count, expected):
    assert split(environments, seeds, count) == expected


@pytest.mark.parametrize("matmul", get_args(Matmul))
def test_on_processors_every_precision_is_float32(matmul):
    x, y = jax.random.normal(jax.random.key(0), (2, 8, 8))
    with precision(matmul):
        found = x @ y
    with jax.default_matmul_precision("float32"):
        np.testing.assert_array_equal(found, x @ y)


def test_elsewhere_three_products_stand_for_float32(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with precision("tensorfloat32x3"):
        chosen = jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]
        assert chosen == "TF32_TF32_F32_X3"


def test_one_by_one_is_what_vmap_is():
    def function(x, y, z):
        return {"sum": x @ y + z, "first": x[0]}

    x, y, z = jnp.arange(6.0).reshape(3, 2), jnp.array([2.0, 5.0]), jnp.arange(3.0)
    ours, theirs = (spread(function, (0, None, 0))(x, y, z) for spread in (one_by_one, jax.vmap))
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])


def test_a_batch_on_an_accelerator_is_what_one_lane_after_the_other_is(monkeypatch):
    mesh = devices.lane_mesh(2, 3)
    keys, scale, shared = jax.random.split(jax.random.key(0), 3), jnp.array([1.0, 10.0]), jnp.float32(0.5)

    def lane(key, scale, shared):
        return scale * jax.random.uniform(key) + shared

    axes = (devices.SEED, devices.TASK, devices.SHARED)
    one_after_the_other = devices.over_lanes(lane, axes, mesh)(keys, scale, shared)
    monkeypatch.setattr(devices, "one_by_one", jax.vmap)
    assert one_after_the_other.shape == (2, 3)
    np.testing.assert_array_equal(one_after_the_other, devices.over_lanes(lane, axes, mesh)(keys, scale, shared))
