"""What a policy takes along of its past, so that it can adapt without its replay buffer.

Remembered steps, in an order in which every prefix is spread as evenly over groups of states and actions as they
allow: the first few thousand are the set that weights are fitted on, all of them are what M can go on learning from.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from safedsr.core.replay import Codec
from safedsr.envs.environment import Environment, Task
from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.runs.format1 import remembered_steps
from safedsr.types import JOINED, PyTree, Transition

MOST_STEPS = 25_000
FIT_STEPS = 4_096
FILE, FORMAT = "memory.safetensors", "2"


class Experience(NamedTuple):
    """Remembered steps, and the Gram matrix of the features of the first `FIT_STEPS` of them."""

    steps: Transition  # [n, …] as they were met
    gram: np.ndarray  # [d, d] float64: ΦᵀΦ

    @property
    def fitted(self) -> int:
        """How many steps weights are fitted on."""
        return min(len(self.steps.action), FIT_STEPS)


Features = Callable[[Any, Any], np.ndarray]  # (obs [n, observations], action [n]) -> φ [n, d] in float64


def make_experience(steps: Transition, features: Features, environment: Environment, params: PyTree) -> Experience:
    """What to keep of remembered steps: each once, without those whose s′ belongs to another episode."""
    steps = take(steps, np.asarray(steps.terminated) != JOINED)
    packed = np.column_stack([steps.obs, steps.action, steps.next_obs, steps.terminated])
    steps = take(steps, np.unique(packed, axis=0, return_index=True)[1])
    steps = take(steps, spread(_strata(steps, environment, params))[:MOST_STEPS])
    return with_gram(steps, features)


def from_rows(rows: Any, filled: Any, codec: Codec) -> Transition:
    """The transitions of those rows that are filled, as arrays of NumPy."""
    return jax.tree.map(np.asarray, codec.unpack(np.asarray(rows)[np.asarray(filled)]))  # type: ignore[arg-type]


def take(steps: Transition, chosen: Any) -> Transition:
    """Some of the steps."""
    return jax.tree.map(lambda x: np.asarray(x)[chosen], steps)


def with_gram(steps: Transition, features: Features) -> Experience:
    """The steps, and the Gram matrix of the first of them."""
    phi = features(steps.obs[:FIT_STEPS], steps.action[:FIT_STEPS])
    return Experience(steps, phi.T @ phi)


def _strata(steps: Transition, environment: Environment, params: PyTree) -> np.ndarray:
    """The group of states [n] in which each step began, where the environment has such groups, and its action."""
    action = np.asarray(steps.action, np.int64)
    if environment.features is None:
        return action
    groups = environment.features
    index = _group_all(groups.index, groups.frame(params), jnp.asarray(steps.obs))
    return np.asarray(index, np.int64) * environment.spec.actions + action


@partial(jax.jit, static_argnames="index")
def _group_all(index: Any, frame: PyTree, obs: Any) -> Any:
    return jax.vmap(index, (None, 0))(frame, obs)


def spread(strata: np.ndarray, seed: int = 0) -> np.ndarray:
    """An order of rows in which each prefix takes from all strata as equally as they allow, and at random within."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(strata))
    order = order[np.argsort(strata[order], kind="stable")]
    _, first, counts = np.unique(strata[order], return_index=True, return_counts=True)
    nth = np.arange(len(order)) - np.repeat(first, counts)  # of its stratum
    return order[np.lexsort((rng.random(len(order)), nth))]


@partial(jax.jit, static_argnames="relabel")
def _relabel_all(relabel: Any, steps: Transition, params: PyTree) -> Transition:
    """All steps relabelled; compiled once for an environment."""
    return jax.vmap(relabel, (0, None))(steps, params)


def relabelled(experience: Experience, environment: Environment, params: PyTree, most: int | None = None) -> Transition:
    """The first `most` remembered steps (all, if not given) with the costs that these parameters put on them."""
    steps = jax.tree.map(lambda x: jnp.asarray(x[:most]), experience.steps)
    if environment.relabel is None:
        raise UserError(
            f"the environment '{environment.name}' cannot say what remembered steps would cost with other parameters"
        )
    return _relabel_all(environment.relabel, steps, params)


def write_experiences(folder: Path, experiences: Mapping[tuple[int, int], Experience]) -> None:
    """The experience of all policies of a folder, by task and place of the seed."""
    tensors = {
        f"{task}/{index}/{name}": array
        for (task, index), one in experiences.items()
        for name, array in {**one.steps._asdict(), "gram": one.gram}.items()
    }
    storage.write_tensors(folder / FILE, tensors, {"memory": FORMAT})


def read_experiences(
    folder: Path, environment: Environment, tasks: Sequence[Task]
) -> dict[tuple[int, int], Experience]:
    """What `write_experiences` wrote; empty where the policies have none."""
    if not (folder / FILE).is_file():
        return {}
    tensors, about = storage.read_tensors(folder / FILE)
    if about.get("memory") not in ("1", FORMAT):
        raise UserError(f"{folder / FILE} was not written by this version of safedsr; remove it to act without it")
    found: dict[tuple[int, int], dict[str, np.ndarray]] = {}
    for name, array in tensors.items():
        task, index, field = name.split("/")
        found.setdefault((int(task), int(index)), {})[field] = array
    if about["memory"] == FORMAT:
        return {key: _experience(fields) for key, fields in sorted(found.items())}
    return {
        (task, index): Experience(remembered_steps(fields, tasks[task].params, environment.settings), fields["gram"])
        for (task, index), fields in sorted(found.items())
    }


def _experience(fields: Mapping[str, np.ndarray]) -> Experience:
    return Experience(Transition(*(fields[name] for name in Transition._fields)), fields["gram"])  # type: ignore[arg-type]
