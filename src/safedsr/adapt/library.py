"""A library of agents: act by the best of several M under the new weights and λ (generalised policy improvement).

Agents that were trained with different costs know different ways. For new costs, each gets new cost weights in closed
form; in every state the library takes the action with the best score of all agents (Barreto et al., 2017). Nothing is
learnt but λ.
"""

import functools
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from safedsr.adapt.certify import certify_in
from safedsr.adapt.config import CertificateConfig, Tell, silent
from safedsr.adapt.costs import Costs, experience_of, learner_of, task_of
from safedsr.adapt.ladder import MARGIN, Adapted, Rung
from safedsr.adapt.penalty import search_penalty
from safedsr.adapt.refit import refit
from safedsr.agents.value_based.trainer import Policy
from safedsr.core.precision import with_precision
from safedsr.engine.evaluate import walked
from safedsr.envs.grid.layout import Layout
from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.runs.about import ABOUT, LIBRARY, MEMBERS, is_library
from safedsr.runs.policy import AnyPolicy, TrainedPolicy
from safedsr.runs.schema import MANIFEST
from safedsr.types import PyTree, Values
from safedsr.validation import in_file, require

MOST = 8  # agents in a library
SAME = 0.02  # agents whose actions differ in less than this share of states count as one
LOOKED_AT = 2048  # states on which actions are compared


@functools.lru_cache(maxsize=32)
def best_values(values: Callable[[PyTree, Any], Values]) -> Callable[[PyTree, Any], Values]:
    """Values of each action by the member that scores it best; the learners of a policy are stacked."""

    def found(policy: Policy, obs: Any) -> Values:
        def of(learner: PyTree, scale: PyTree) -> Values:
            return values(policy._replace(learner=learner, scale=scale), obs)

        each = jax.vmap(of)(policy.learner, policy.scale)  # [members, A, …]
        best = jnp.argmax(each.score, 0)
        return jax.tree.map(lambda x: x[best, jnp.arange(len(best))], each)

    return found


def distinct(agents: Sequence[AnyPolicy], most: int = MOST) -> tuple[AnyPolicy, ...]:
    """Agents whose actions differ, in the order given; `most` of them at most."""
    require(most >= 1, "most", most, "give at least 1")
    _require_kind(agents)
    looked = experience_of(agents[0]).steps.obs[:LOOKED_AT]
    kept: list[AnyPolicy] = []
    acts: list[np.ndarray] = []
    for agent in agents:
        mine = np.argmax(np.asarray(agent.values(looked).score), -1)
        if len(kept) < most and all((mine != other).mean() >= SAME for other in acts):
            kept.append(agent)
            acts.append(mine)
    return tuple(kept)


def join(members: Sequence[AnyPolicy]) -> AnyPolicy:
    """One agent that acts by the best of these; its λ and its task are those of the first."""
    first = members[0]
    _require_kind(members)
    _require_size(members)
    learner, scale = (_stack([getattr(one.policy, name) for one in members]) for name in ("learner", "scale"))
    values = best_values(first.trainer.values)
    of = with_precision(values, first.job.train.matmul)
    return first.changed(
        policy=first.policy._replace(learner=learner, scale=scale),
        members=tuple(members),
        recursion=None,
        values_of=of,
        _values=jax.jit(of),
        _many_values=jax.jit(jax.vmap(of, (None, 0))),
    )


def _stack(trees: Sequence[PyTree]) -> PyTree:
    """Trees of arrays of the same sizes as one.

    Their structures may differ: a layer that got rows for other costs still has the number of outputs it was made with.
    """
    leaves = zip(*map(jax.tree.leaves, trees), strict=True)
    return jax.tree.unflatten(jax.tree.structure(trees[0]), [jnp.stack(same) for same in leaves])


def _require_kind(agents: Sequence[AnyPolicy]) -> None:
    """Refuse what can never act together."""
    first = agents[0]
    for other in agents:
        if not isinstance(other, TrainedPolicy):
            raise UserError(f"{other!r} is no trained agent; a library needs agents such as safedsr.load(folder)")
        if getattr(other, "members", ()):
            raise UserError("a library cannot be part of another library; give its agents, which are agent.members")
        learner_of(other)
        if other.job.algorithm != first.job.algorithm:
            raise _unfitting(f"is of {other.job.algorithm}, not of {first.job.algorithm}", other, first)
        if not _same_map(other, first):
            raise _unfitting("is of another map or environment", other, first)


def _require_size(members: Sequence[AnyPolicy]) -> None:
    """Refuse agents whose networks and weights cannot be stacked."""
    first = members[0]
    for other in members:
        counts = [len(agent.task.budgets) for agent in (other, first)]
        if counts[0] != counts[1]:
            raise UserError(
                f"{_name(other)} and {_name(first)} have different numbers of costs ({counts[0]} and {counts[1]}); "
                "name the costs of the library, so that each agent gets weights for them"
            )
        if _shapes(other) != _shapes(first):
            raise _unfitting("has networks of other sizes", other, first)


def _unfitting(why: str, other: TrainedPolicy, first: TrainedPolicy) -> UserError:
    return UserError(
        f"{_name(other)} does not fit {_name(first)}: it {why}; a library needs agents of one algorithm and size on "
        "one map"
    )


def _name(agent: TrainedPolicy) -> str:
    """What tells an agent from another one in an error; its own task is a new one already, if it was adapted."""
    task = agent.job.tasks[0] if len(agent.job.tasks) == 1 else agent.task
    return f"the agent of '{task.title}' (seed {agent.seed})"


def _same_map(one: TrainedPolicy, other: TrainedPolicy) -> bool:
    """Whether two agents live on maps with the same walls; environments without maps have the same name."""
    both = [agent.task.params for agent in (one, other)]
    if all(isinstance(params, Layout) for params in both):
        return np.array_equal(both[0].walls, both[1].walls)
    return one.job.environment.name == other.job.environment.name


def _shapes(agent: TrainedPolicy) -> list[tuple[int, ...]]:
    return [np.shape(leaf) for leaf in jax.tree.leaves(agent.policy.learner)]


def _names(agents: Sequence[TrainedPolicy]) -> list[str]:
    """A name for each agent in tables: its task, and its seed or a number where tasks are the same."""
    names = [agent.task.title for agent in agents]
    seeds = [f"{name}, seed {agent.seed}" for name, agent in zip(names, agents, strict=True)]
    told = [seed if names.count(name) > 1 else name for name, seed in zip(names, seeds, strict=True)]
    return [f"{name}, agent {n}" if told.count(name) > 1 else name for n, name in enumerate(told, 1)]


def adapt_library(
    agents: Sequence[AnyPolicy],
    costs: Costs,
    budget: Any = None,
    certificate: CertificateConfig = CertificateConfig(),
    show: Callable[[Rung], None] = lambda rung: None,
    tell: Tell = silent,
) -> Adapted[AnyPolicy]:
    """Adapt each agent's cost weights, search λ for each of them and for the library, and take the best of all.

    The first agent is the one that is adapted: the task is its own with the new costs.
    """
    task = task_of(agents[0], costs, budget)
    enough = min(certificate.require + MARGIN, 1.0)
    unlike = distinct(agents, len(agents))
    chosen = unlike[:MOST]
    names = _names(chosen)
    refitted = [refit(member, task).changed(task=task) for member in chosen]
    candidates = list(zip(names, refitted, strict=True))
    if len(refitted) > 1:
        candidates.append((f"library of {len(refitted)}", join(refitted)))
    rungs = []
    for name, candidate in candidates:
        began, before = time.perf_counter(), walked()
        tell(f"searching λ for '{name}'", len(rungs) / len(candidates))
        found = search_penalty(candidate, task, certificate.epsilon, enough)[0]
        seconds, simulated = time.perf_counter() - began, walked() - before
        certified = certify_in(found, task, certificate)
        rungs.append(Rung(name, found, certified, seconds, simulated_steps=simulated))
        show(rungs[-1])
    best = max(rungs, key=lambda rung: rung.certificate.rank)
    notes: list[str] = []
    if len(unlike) == 1:
        notes.append(
            f"no library was made: all agents act alike in {1 - SAME:.0%} of the states; '{names[0]}' was adapted"
        )
    if left := len(unlike) - len(chosen):
        notes.append(f"a library holds {MOST} agents at most; the last {left} were left out")
    return Adapted(best.agent, best.level, best.certificate, tuple(rungs), (), tuple(notes))


def save_members(agent: TrainedPolicy, members: Sequence[TrainedPolicy], folder: Path, overwrite: bool) -> None:
    """Save the agents of a library below a folder, and last the file that names them."""
    for file, kind in ((MANIFEST, "run"), (ABOUT, "policy")):
        if (folder / file).is_file():
            raise UserError(f"{folder} holds a {kind} already; choose another folder")
    if is_library(folder) and not overwrite:
        raise UserError(f"{folder} holds a library already; choose another folder, or say overwrite=True")
    new = folder / f".{MEMBERS}"
    with storage.disk(folder):
        shutil.rmtree(new, ignore_errors=True)  # of a save that was stopped
    for n, member in enumerate(members):
        member.save(new / str(n))
    with storage.disk(folder):
        (folder / LIBRARY).unlink(missing_ok=True)  # until the new one is complete
        if (folder / MEMBERS).is_dir():
            shutil.rmtree(folder / MEMBERS)
        new.rename(folder / MEMBERS)
    lam = [float(value) for value in agent.policy.lam]
    storage.write_json(folder / LIBRARY, {"members": len(members), "lam": lam}, signed=True)


def read_members(folder: Path, load: Callable[[Path], AnyPolicy]) -> AnyPolicy:
    """The agent that `save_members` wrote."""
    about = storage.read_json(folder / LIBRARY, ["members", "lam"])
    count, lam = about["members"], about["lam"]
    with in_file(folder / LIBRARY):
        require(isinstance(count, int) and count >= 1, "members", count, "give at least 1")
    joined = join([load(folder / MEMBERS / str(n)) for n in range(count)])
    with in_file(folder / LIBRARY):
        numbers = isinstance(lam, list) and all(isinstance(value, int | float) and value >= 0 for value in lam)
        costs = len(joined.task.budgets)
        require(numbers and len(lam) == costs, "lam", lam, f"give {costs} numbers of at least 0")
    return joined.with_policy(joined.policy._replace(lam=jnp.asarray(lam, jnp.float32)))
