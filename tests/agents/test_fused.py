from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from safedsr.agents.safedsr import fused
from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.agents.safedsr.equations import scores
from safedsr.agents.safedsr.learner import init, learn_cached
from safedsr.core.replay import Codec
from safedsr.envs.environment import Spec

pytestmark = pytest.mark.usefixtures("compile_quickly")
CONFIG = SafeDsrConfig(features=32, successor_hidden=(64, 16))
SPEC = Spec(observations=2, actions=4, costs=2)
LAM = jnp.array([0.5, 2.0])


def lane(seed):
    """A learner whose target differs from it, random features of 300 transitions, and a batch of places."""
    keys = jax.random.split(jax.random.key(seed), 4)
    s = init(keys[0], SPEC, 2, CONFIG)._replace(target_successor=init(keys[1], SPEC, 2, CONFIG).successor)
    cached = jax.random.normal(keys[2], (300, 5 * CONFIG.features))
    places = jax.random.randint(keys[3], (CONFIG.batch_size,), 0, 300)
    rows = jnp.zeros((CONFIG.batch_size, 9)).at[:, 4].set(places % 3 == 0)  # terminated
    return s, cached, places, Codec(2, 2).unpack(rows)


def test_the_kernel_learns_what_the_plain_code_learns(monkeypatch):
    """Two lanes at once, as on a GPU; the interpreter stands in for one."""
    lanes = jax.vmap(lane)(jnp.arange(2))
    learn = partial(learn_cached, lam=LAM, config=CONFIG)
    s, cached, places, _ = lanes
    choices = jax.vmap(jax.vmap(lambda s, phi: scores(s.successor, s.weights, phi, LAM).argmax(), (None, 0)))(
        s, jax.vmap(lambda cached, places: cached[places].reshape(-1, 5, CONFIG.features)[:, 1:])(cached, places)
    )
    assert np.bincount(choices.ravel(), minlength=4).min() > 5, "every action is the best somewhere"
    plain, plain_loss = jax.jit(jax.vmap(learn))(*lanes)
    monkeypatch.setattr(fused, "suits", lambda config: True)
    monkeypatch.setattr(fused, "errors", partial(fused.errors, interpret=True))
    quick, quick_loss = jax.jit(jax.vmap(learn))(*lanes)
    np.testing.assert_allclose(quick_loss, plain_loss, rtol=1e-5)
    slopes = (jax.tree.leaves(x.successor_optimizer[0].mu) for x in (quick, plain))
    for one, other in zip(*slopes, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())
    for one, other in zip(*(jax.tree.leaves(x.successor) for x in (quick, plain)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


USUAL = {"backend": "gpu", "capability": "9.0", "precision": "tensorfloat32"}


@pytest.mark.parametrize(
    ("machine", "changes", "expected"),
    [
        ({}, {}, True),
        ({}, {"features": 64, "successor_hidden": (32, 128), "batch_size": 128}, True),
        ({"backend": "cpu"}, {}, False),
        ({"capability": "8.0"}, {}, False),
        ({"precision": "float32"}, {}, False),
        ({"precision": "TF32_TF32_F32_X3"}, {}, False),
        ({}, {"batch_size": 200}, False),
        ({}, {"features": 96}, False),
        ({}, {"successor_hidden": (256, 128)}, False),
        ({}, {"successor_hidden": (8, 128)}, False),
        ({}, {"successor_hidden": (128,)}, False),
        ({}, {"successor_hidden": (128, 128, 128)}, False),
    ],
)
def test_where_the_kernel_is_used(monkeypatch, machine, changes, expected):
    machine = USUAL | machine
    monkeypatch.setattr(jax, "default_backend", lambda: machine["backend"])
    monkeypatch.setattr(jax, "local_devices", lambda: [SimpleNamespace(compute_capability=machine["capability"])])
    with jax.default_matmul_precision(machine["precision"]):
        assert fused.suits(SafeDsrConfig(**changes)) is expected
