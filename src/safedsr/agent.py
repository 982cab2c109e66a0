"""Trained policies: save them, load them in a process that never trained, act with them."""

import copy
import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from safedsr import storage
from safedsr.algorithms import make_trainer
from safedsr.errors import UserError
from safedsr.grid import NUM_ACTIONS
from safedsr.job import Environment, Job, job_from_dict
from safedsr.metrics import goal_count, safe_goal_count
from safedsr.program import Program, from_arrays, to_arrays
from safedsr.runs import Run
from safedsr.types import PyTree, Values

FORMAT = 1


class Agent:
    """One trained policy: `act` chooses, `values` tells why."""

    def __init__(self, job: Job, policy: PyTree, environment: int, seed: int) -> None:
        self.job = job
        self.policy = policy
        self.environment: Environment = job.environments[environment]
        self.seed = seed
        self.trainer = make_trainer(job.algorithm, job.agent, job.grid)
        self.values_of = exact(self.trainer.values, job)
        self._values = jax.jit(self.values_of)
        self._many_values = jax.jit(jax.vmap(self.values_of, (None, 0)))

    def with_policy(self, policy: PyTree) -> "Agent":
        """The same agent with other numbers in its policy; nothing compiled so far is lost."""
        other = copy.copy(self)
        other.policy = policy
        return other

    def values(self, obs: Any) -> Values:
        """What is expected of each action: for one observation [2], or for many [n, 2]."""
        obs = jnp.asarray(obs, jnp.float32)
        if obs.ndim not in (1, 2) or obs.shape[-1] != 2:
            raise UserError(f"observations have shape {obs.shape}; give [2] or [n, 2]")
        return (self._values if obs.ndim == 1 else self._many_values)(self.policy, obs)

    def act(self, obs: Any, epsilon: float = 0.0, rng: np.random.Generator | None = None) -> Any:
        """The best action (an int) for one observation, or actions [n] for many; ε of them at random."""
        best = np.argmax(np.asarray(self.values(obs).score), -1)
        if epsilon > 0:
            rng = rng or np.random.default_rng()
            explore = rng.random(best.shape) < epsilon
            best = np.where(explore, rng.integers(NUM_ACTIONS, size=best.shape), best)
        return int(best) if best.ndim == 0 else best


def save_policy(folder: Path, program: Program, state: PyTree, run: Run) -> None:
    """Write the policies of all environments and seeds, and which seed did best where."""
    job = program.job
    storage.write_tensors(
        folder / "policy.safetensors", to_arrays(program.trainer.policy(state)), {"safedsr": str(FORMAT)}
    )
    best = []
    for index, environment in enumerate(job.environments):
        counts = [(safe_goal_count(e, environment.budgets), goal_count(e)) for e in run.by_seed(index)]
        best.append(job.seeds[max(range(len(counts)), key=counts.__getitem__)] if counts else job.seeds[0])
    storage.write_json(folder / "policy.json", {"format": FORMAT, "best": best, "job": job.to_dict()})


def exact(function: Any, job: Job) -> Any:
    """The function with matrix products of the precision that the job was trained with."""

    @functools.wraps(function)
    def with_precision(*args: Any) -> Any:
        with jax.default_matmul_precision(job.train.matmul):
            return function(*args)

    return with_precision


def load(path: str | Path, seed: int | None = None, environment: int = 0) -> Agent:
    """A policy from a run folder; without `seed`, the one with most safe goals in that environment."""
    job, policies, best = _read(path)
    if not 0 <= environment < len(job.environments):
        raise UserError(f"environment is {environment}; the run has {len(job.environments)}, counted from 0")
    chosen = best[environment] if seed is None else seed
    if chosen not in job.seeds:
        raise UserError(f"seed is {chosen}; the run has {', '.join(map(str, job.seeds))}")
    return Agent(job, _pick(policies, environment, job.seeds.index(chosen)), environment, chosen)


def load_all(path: str | Path) -> dict[tuple[int, int], Agent]:
    """Every policy of a run folder by (environment, seed); what one of them compiles serves all."""
    job, policies, _ = _read(path)
    first = Agent(job, _pick(policies, 0, 0), 0, job.seeds[0])
    agents = {}
    for environment in range(len(job.environments)):
        for index, seed in enumerate(job.seeds):
            agent = first.with_policy(_pick(policies, environment, index))
            agent.environment, agent.seed = job.environments[environment], seed
            agents[environment, seed] = agent
    return agents


def _pick(policies: PyTree, environment: int, index: int) -> PyTree:
    return jax.tree.map(lambda x: x[environment, index], policies)


def _read(path: str | Path) -> tuple[Job, PyTree, list[int]]:
    """The job of a run folder, its policies [E, S] and the best seed of each environment."""
    folder = Path(path)
    if folder.name in ("policy.safetensors", "policy.json"):
        folder = folder.parent
    if not (folder / "policy.json").is_file():
        hint = "it has not finished: --resume it" if (folder / "manifest.json").is_file() else "give a run folder"
        raise UserError(f"{folder} holds no policy ({hint})")
    found = storage.read_json(folder / "policy.json", ["format"])["format"]
    if found != FORMAT:
        raise UserError(f"{folder / 'policy.json'} has format {found}; this version reads {FORMAT}: upgrade safedsr")
    about = storage.read_json(folder / "policy.json", ["best", "job"])
    arrays, metadata = storage.read_tensors(folder / "policy.safetensors")
    if metadata.get("safedsr") != str(FORMAT):
        raise UserError(f"{folder / 'policy.safetensors'} was not written by this version of safedsr")
    job = job_from_dict(about["job"])
    program = Program(job)
    shape = jax.eval_shape(program.trainer.policy, program.state_shape())
    return job, from_arrays(shape, arrays, str(folder / "policy.safetensors")), about["best"]
