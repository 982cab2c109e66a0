"""A policy as a list of simple steps on arrays, from which every file format is written.

A step is the name of a function of `safedsr.field.controller.STEPS`, followed by the names of its arrays. The steps
turn observations into M [n, A, d], whose products with w_r and w_c are Q and K; or into Q itself (SafeDQN), or into
log-probabilities (on-policy agents).
"""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import safedsr.agents.onpolicy.baselines as onpolicy
from safedsr.agents.plus.groups import groups_of
from safedsr.agents.plus.learner import PlusPolicy
from safedsr.agents.safedsr.equations import DsrPolicy
from safedsr.core.nets import Mlp
from safedsr.core.normalizer import LARGEST, SMALLEST_STD, Running
from safedsr.envs.environment import Spec
from safedsr.runs.policy import TrainedPolicy


class Portable(NamedTuple):
    """The steps and their arrays; `weights` are w_r [d], w_c [J, d] and lam [J], if the values are linear in them."""

    steps: tuple[str, ...]
    arrays: dict[str, np.ndarray]
    weights: dict[str, np.ndarray]

    @property
    def policy(self) -> str:
        """A hash of everything but w_c and λ, which may be replaced."""
        found = hashlib.sha256(" ".join(self.steps).encode())
        fixed = {**self.arrays, **{name: w for name, w in self.weights.items() if name == "w_r"}}
        for name in sorted(fixed):
            found.update(f"{name}{fixed[name].shape}".encode() + fixed[name].tobytes())
        return found.hexdigest()


class Writer:
    """Collects steps and their arrays."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.arrays: dict[str, np.ndarray] = {}

    def add(self, step: str, **arrays: Any) -> None:
        """Add a step; its arrays are numbered by the step."""
        names = {f"{name}_{len(self.steps)}": array for name, array in arrays.items()}
        self.arrays |= {name: np.asarray(array, np.float32, order="C") for name, array in names.items()}
        self.steps.append(" ".join([step, *names]))

    def layers(self, net: Mlp | Sequence[Any], activation: str = "relu") -> None:
        """Dense layers with an activation between them."""
        for number, layer in enumerate(net.layers if isinstance(net, Mlp) else net):
            if number:
                self.add(activation)
            self.add("dense", weight=layer.weight.T, bias=layer.bias)


def portable(agent: TrainedPolicy) -> Portable:
    """The policy of an agent as steps."""
    to, policy = Writer(), jax.device_get(agent.policy)
    if isinstance(policy, onpolicy.Policy):
        if agent.job.agent.normalize_obs:
            _normalise(to, policy.obs_scale)
        to.layers(policy.actor, "tanh")
        to.add("log_softmax")
        return Portable(tuple(to.steps), to.arrays, {})
    if agent.job.environment.spec.scaled:
        _scale(to, policy.scale, agent.job.environment.spec)
    net = policy.learner
    if isinstance(net, Mlp):
        to.layers(net)
        return Portable(tuple(to.steps), to.arrays, {})
    if isinstance(net, PlusPolicy):
        _successor_plus(to, net, agent)
    else:
        _successor(to, net, agent.job.environment.spec)
    weights = {"w_r": net.weights.w_r, "w_c": net.weights.w_c, "lam": policy.lam}
    return Portable(
        tuple(to.steps), to.arrays, {name: np.asarray(array, np.float32) for name, array in weights.items()}
    )


def _normalise(to: Writer, running: Running) -> None:
    """As `normalizer.apply`."""
    if running.count > 1:
        std = np.sqrt(running.squares / (running.count - 1)).clip(SMALLEST_STD)
        to.add("scale", middle=running.mean, half=std, limit=np.full(len(std), LARGEST))


def _scale(to: Writer, running: Running, spec: Spec) -> None:
    """As `scaling.apply`: by the bounds, or by the statistics where there are none."""
    low, high = (np.asarray(side, np.float32) for side in spec.bounds)
    bounded = np.isfinite(low) & np.isfinite(high)
    low, high = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
    middle, half, limit = np.zeros_like(low), np.ones_like(low), np.full_like(low, np.inf)
    if running.count > 1:
        half = np.sqrt(running.squares / (running.count - 1)).clip(SMALLEST_STD)
        middle, limit = running.mean, np.full_like(low, LARGEST)
    to.add(
        "scale",
        middle=np.where(bounded, (low + high) / 2, middle),
        half=np.where(bounded, (high - low) / 2, half),
        limit=np.where(bounded, np.inf, limit),
    )


def _successor(to: Writer, net: DsrPolicy, spec: Spec) -> None:
    """M of SafeDSR: the part of φ's first layer that belongs to an action is a bias of that action."""
    first, *others = net.phi.layers
    assert first.bias is not None
    to.add("each")
    size = spec.observations
    to.add("dense", weight=first.weight[:, :size].T, bias=first.bias + first.weight[:, size:].T)
    if others:
        to.add("relu")
        to.layers(others)
    if net.phi.unit_length:
        to.add("unit")
    to.layers(net.successor)


def _successor_plus(to: Writer, net: PlusPolicy, agent: TrainedPolicy) -> None:
    """M of SafeDSR-plus. Its inputs are linear in each observation, so a value and a slope describe them."""
    environment, frame = agent.job.environment, net.phi.frame
    groups, size = groups_of(environment, agent.job.agent), environment.spec.observations
    point, ones = jnp.zeros(size), jnp.ones(size)
    scaled, slope = jax.jvp(lambda obs: groups.scaled(frame, obs), (point,), (ones,))
    units, unit_slope = jax.jvp(lambda obs: groups.units(frame, obs), (point,), (ones,))
    scaled, slope, units, unit_slope = (np.asarray(x, np.float64) for x in (scaled, slope, units, unit_slope))
    octaves = np.arange(1, agent.job.agent.octaves + 1)
    to.add(
        "waves",
        start=-scaled / slope,
        width=1 / slope,
        factor=unit_slope / slope,
        shift=units - unit_slope / slope * scaled,
        turns=2 * np.pi / 2.0**octaves,
    )
    to.layers(net.successor.trunk)
    to.add("relu")
    to.add("split", actions=environment.spec.actions)
    to.layers([net.successor.last])
