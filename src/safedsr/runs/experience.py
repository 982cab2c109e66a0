"""The replay memory that is saved with a policy, so that the policy can adapt without the full replay buffer.

The steps are ordered so that every prefix is spread over groups of states and actions as evenly as possible. Weights
are fitted on the first `FIT_STEPS` steps; M can be trained further on all of them.
"""

import re
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
from safedsr.validation import MOST, in_file, require

MOST_STEPS = 25_000
MOST_STARTS = 256  # first steps of episodes among them, for walks through the memory
FIT_STEPS = 4_096
FILE, FORMAT = "memory.safetensors", "2"
LENGTH = "longest"  # the array of `Experience.longest`; files of earlier versions lack it
THINNED = "thinned"  # what the file says if it holds fewer steps than there were


class Experience(NamedTuple):
    """Steps of the replay memory, and the Gram matrix of the features of the first `FIT_STEPS` of them."""

    steps: Transition  # [n, …] as they were recorded
    gram: np.ndarray  # [d, d] float64: ΦᵀΦ
    different: int = 0  # steps that there were to choose from, if they have just been chosen
    longest: int = 0  # steps of the longest episode of the training; 0 if not known

    @property
    def fitted(self) -> int:
        """Number of steps that weights are fitted on."""
        return min(len(self.steps.action), FIT_STEPS)


FeatureFunction = Callable[[Any, Any], np.ndarray]  # (obs [n, observations], action [n]) -> φ [n, d] in float64


def make_experience(
    steps: Transition, features: FeatureFunction, environment: Environment, params: PyTree
) -> Experience:
    """Select the steps to save: each once, without those whose s′ belongs to another episode.

    Of equal steps, one that began an episode is kept, if there is any: walks through memory begin there.
    """
    steps = take(steps, np.asarray(steps.terminated) != JOINED)
    steps = take(steps, np.argsort(-np.asarray(steps.first), kind="stable"))
    packed = np.column_stack([steps.obs, steps.action, steps.next_obs, steps.terminated])
    steps = take(steps, np.unique(packed, axis=0, return_index=True)[1])
    order = spread(_strata(steps, environment, params))
    starts = order[np.asarray(steps.first)[order] > 0][:MOST_STARTS]
    others = order[~np.isin(order, starts)]
    chosen = take(steps, np.concatenate([others[: MOST_STEPS - len(starts)], starts]))
    return with_gram(chosen, features)._replace(different=len(order))


def from_rows(rows: Any, filled: Any, codec: Codec) -> Transition:
    """The transitions in the filled rows of a replay buffer, as NumPy arrays."""
    return jax.tree.map(np.asarray, codec.unpack(np.asarray(rows)[np.asarray(filled)]))  # type: ignore[arg-type]


def padded(rows: Any) -> np.ndarray:
    """Rows filled up with zeros to a power of two, so that few sizes are compiled."""
    rows = np.asarray(rows)
    size = 1 << max(len(rows) - 1, 0).bit_length()
    return np.concatenate([rows, np.zeros((size - len(rows), *rows.shape[1:]), rows.dtype)])


def take(steps: Transition, chosen: Any) -> Transition:
    """The chosen steps."""
    return jax.tree.map(lambda x: np.asarray(x)[chosen], steps)


def with_gram(steps: Transition, features: FeatureFunction) -> Experience:
    """The steps, with the Gram matrix of the first `FIT_STEPS` of them."""
    phi = features(steps.obs[:FIT_STEPS], steps.action[:FIT_STEPS])
    return Experience(steps, phi.T @ phi)


def _strata(steps: Transition, environment: Environment, params: PyTree) -> np.ndarray:
    """The stratum [n] of each step: its action and, if the environment has groups of states, the group of s."""
    action = np.asarray(steps.action, np.int64)
    if environment.groups is None:
        return action
    groups = environment.groups
    index = _group_all(groups.index, groups.frame(params), jnp.asarray(padded(steps.obs)))[: len(action)]
    return np.asarray(index, np.int64) * environment.spec.actions + action


@partial(jax.jit, static_argnames="index")
def _group_all(index: Any, frame: PyTree, obs: Any) -> Any:
    return jax.vmap(index, (None, 0))(frame, obs)


def spread(strata: np.ndarray, seed: int = 0) -> np.ndarray:
    """A random order of rows in which every prefix takes as equally from all strata as possible."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(strata))
    order = order[np.argsort(strata[order], kind="stable")]
    _, first, counts = np.unique(strata[order], return_index=True, return_counts=True)
    nth = np.arange(len(order)) - np.repeat(first, counts)  # rank of each row in its stratum
    return order[np.lexsort((rng.random(len(order)), nth))]


@partial(jax.jit, static_argnames="relabel")
def _relabel_all(relabel: Any, steps: Transition, params: PyTree) -> Transition:
    """Relabel all steps; compiled once per environment."""
    return jax.vmap(relabel, (0, None))(steps, params)


def relabelled(experience: Experience, environment: Environment, params: PyTree, most: int | None = None) -> Transition:
    """The first `most` steps of the replay memory (default: all) with their costs under these parameters."""
    return label_steps(jax.tree.map(lambda x: x[:most], experience.steps), environment, params)


def label_steps(steps: Transition, environment: Environment, params: PyTree) -> Transition:
    """Steps [n] with their costs under these parameters."""
    found = _labelled(steps, environment, params)
    check_cost(found.cost)
    return found


def check_cost(cost: Any) -> np.ndarray:
    """The same costs; raises if some are negative or not finite."""
    cost = np.asarray(cost)
    if not (np.isfinite(cost) & (cost >= 0)).all():
        raise UserError("some of the costs are negative or not finite; costs are finite and at least 0")
    return cost


def _labelled(steps: Transition, environment: Environment, params: PyTree) -> Transition:
    if environment.relabel_all:
        return environment.relabel_all(steps, params)
    if environment.relabel is None:
        raise UserError(
            f"the environment '{environment.name}' has no function 'relabel', which gives the replay memory new costs; "
            "add one"
        )
    return _relabel_all(environment.relabel, jax.tree.map(jnp.asarray, steps), params)


def write_experiences(folder: Path, experiences: Mapping[tuple[int, int], Experience]) -> None:
    """Write the experience of all policies of a folder, by task and index of the seed."""
    tensors = {
        f"{task}/{index}/{name}": array
        for (task, index), one in experiences.items()
        for name, array in {**one.steps._asdict(), "gram": one.gram, LENGTH: np.array([one.longest])}.items()
        if not isinstance(array, tuple)  # an environment without extras
    }
    thin = [one for one in experiences.values() if one.different > len(one.steps.action)]
    most = max((one.different for one in thin), default=0)
    word = {THINNED: f"{MOST_STEPS:,} of up to {most:,}"} if thin else {}
    storage.write_tensors(folder / FILE, tensors, {"memory": FORMAT, **word})


def thinned(folder: Path) -> str | None:
    """A sentence if the memory in a folder holds fewer steps than the agents had; None if it holds all of them."""
    path = folder / FILE
    found = storage.read_tensors(path)[1].get(THINNED) if path.is_file() else None
    return found and f"the memory that is saved with the policies was thinned: it holds {found} different steps of each"


def read_experiences(
    folder: Path, environment: Environment, tasks: Sequence[Task]
) -> dict[tuple[int, int], Experience]:
    """Read what `write_experiences` wrote; empty if the folder has no such file."""
    if not (folder / FILE).is_file():
        return {}
    tensors, about = storage.read_tensors(folder / FILE)
    if about.get("memory") not in ("1", FORMAT):
        raise UserError(
            f"{folder / FILE} was not written by this version of safedsr; delete it to use the policy without memory"
        )
    found: dict[tuple[int, int], dict[str, np.ndarray]] = {}
    with in_file(folder / FILE):
        for name, array in tensors.items():
            fine = re.fullmatch(r"(\d{1,9})/(\d{1,9})/(\w+)", name)
            require(fine is not None and int(fine[1]) < len(tasks), "an array's name", name, "give TASK/SEED/FIELD")
            assert fine
            found.setdefault((int(fine[1]), int(fine[2])), {})[fine[3]] = array
        if about["memory"] == FORMAT:
            return {key: _experience(fields, environment) for key, fields in sorted(found.items())}
        for fields in found.values():
            _require_arrays(fields, {"place": (4,), "action": (), "terminated": ()})
    return {
        (task, index): Experience(remembered_steps(fields, tasks[task].params, environment.settings), fields["gram"])
        for (task, index), fields in sorted(found.items())
    }


def _require_arrays(fields: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise unless the fields are finite arrays [n, …] of these shapes, and `gram` is a square matrix."""
    if lacking := sorted({*shapes, "gram"} - set(fields)):
        raise UserError(f"it lacks {', '.join(lacking)}; found: {', '.join(sorted(fields))}")
    rows, gram = len(np.atleast_1d(fields["action"])), fields["gram"]
    for name, shape in shapes.items():
        require(fields[name].shape == (rows, *shape), name, fields[name].shape, f"give {[rows, *shape]}")
    require(gram.ndim == 2 and len(gram) == gram.shape[-1], "gram", gram.shape, "give a square matrix")
    for name, array in fields.items():
        fine = array.dtype.kind in "biuf" and np.isfinite(array).all()
        require(bool(fine), name, str(array.dtype), "give finite numbers")


def _experience(fields: Mapping[str, np.ndarray], environment: Environment) -> Experience:
    n = (environment.spec.observations,)
    _require_arrays(fields, {"obs": n, "action": (), "reward": (), "next_obs": n, "terminated": ()})
    known = environment.spec.actions
    within = ((fields["action"] >= 0) & (fields["action"] < known)).all()
    require(bool(within), "action", "another", f"actions are numbers from 0 to {known - 1}")
    require("cost" in fields and fields["cost"].ndim == 2, "cost", sorted(fields), "give costs [n, J]")
    require(len(fields["cost"]) == len(fields["action"]), "cost", fields["cost"].shape, "give a row for each step")
    steps = {name: fields[name] for name in Transition._fields if name in fields}
    longest = np.asarray(fields.get(LENGTH, [0]))
    fine = longest.shape == (1,) and 0 <= longest[0] <= MOST
    require(bool(fine), LENGTH, longest.tolist(), "give a number of steps")
    return Experience(Transition(**steps), fields["gram"], longest=int(longest[0]))  # type: ignore[arg-type]
