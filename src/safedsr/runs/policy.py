"""Trained policies: save them, load them in a process that never trained, act with them, adapt them."""

import copy
import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from safedsr.agents.registry import find_algorithm, make_trainer
from safedsr.engine.lanes import precision
from safedsr.engine.program import Program, from_arrays, to_arrays
from safedsr.envs.grid.physics import NUM_ACTIONS
from safedsr.errors import UserError
from safedsr.runs import experience as memory
from safedsr.runs import storage
from safedsr.runs.experience import Past
from safedsr.runs.experiment import Environment, Job, job_from_dict
from safedsr.runs.folder import Run, read_manifest
from safedsr.runs.metrics import best_place
from safedsr.types import PyTree, Values

if TYPE_CHECKING:
    from safedsr.adapt.certify import Certificate
    from safedsr.adapt.costs import Costs
    from safedsr.adapt.front import Front
    from safedsr.adapt.ladder import Adapted
    from safedsr.adapt.recursive import Recursion

FORMAT = 1


class Agent:
    """One trained policy: `act` chooses, `values` tells why. Adapting gives another agent; this one stays."""

    def __init__(self, job: Job, policy: PyTree, environment: int, seed: int, past: Past | None = None) -> None:
        self.job = job
        self.policy = policy
        self.environment: Environment = job.environments[environment]
        self.seed = seed
        self.past = past
        self.recursion: Recursion | None = None  # what `update` has learnt so far
        self.trainer = make_trainer(job.algorithm, job.agent, job.grid)
        self.values_of = exact(self.trainer.values, job)
        self._values = jax.jit(self.values_of)
        self._many_values = jax.jit(jax.vmap(self.values_of, (None, 0)))

    def with_policy(self, policy: PyTree) -> "Agent":
        """The same agent with other numbers in its policy; nothing compiled so far is lost."""
        return self.changed(policy=policy, recursion=None)

    def changed(self, **attributes: Any) -> "Agent":
        """The same agent with other attributes."""
        other = copy.copy(self)
        for name, value in attributes.items():
            setattr(other, name, value)
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

    def refit(self, costs: "Costs", rewards: bool = False, **settings: Any) -> "Agent":
        """Cost weights for other costs (and reward weights, on request), in closed form."""
        from safedsr.adapt.refit import refit

        return refit(self, costs, rewards, **settings)

    def update(self, obs: Any, action: Any, cost: Any, forgetting: float = 0.999) -> "Agent":
        """Cost weights that follow costs as they are met: of one step [2] or of several [n, 2]."""
        from safedsr.adapt.recursive import update

        return update(self, obs, action, cost, forgetting)

    def adapt(self, costs: "Costs", level: str = "auto", budget: Any = None, **settings: Any) -> "Adapted":
        """Climb to a rung ("cost", "penalty", "memory", "full"), or until the certificate passes ("auto")."""
        from safedsr.adapt.ladder import adapt

        return adapt(self, costs, level, budget, **settings)

    def certify(self, costs: "Costs | None" = None, budget: Any = None, **settings: Any) -> "Certificate":
        """What simulated episodes allow to say of this policy, with bounds."""
        from safedsr.adapt.certify import certify

        return certify(self, costs, budget, **settings)

    def front(self, budgets: Sequence[float], costs: "Costs | None" = None, **settings: Any) -> "Front":
        """Reward against cost over λ, and the λ for each budget."""
        from safedsr.adapt.front import front

        return front(self, budgets, costs, **settings)

    def save(self, folder: str | Path) -> None:
        """Write this policy into a folder that `load` opens."""
        folder, job = Path(folder), own_job(self)
        folder.mkdir(parents=True, exist_ok=True)
        if self.past is not None:
            memory.write_pasts(folder, {(0, 0): self.past})
        policy = jax.tree.map(lambda x: x[None, None], self.policy)
        _write(folder, policy, job, [self.seed])


def own_job(agent: Agent) -> Job:
    """The job of this agent alone, in the environment that it is in now."""
    job, count = agent.job, len(agent.environment.budgets)
    algorithm, config = job.algorithm, job.agent
    if count and find_algorithm(algorithm).costless:
        algorithm = f"safe{algorithm}"  # it has got costs since
    if config.aim is not None and len(config.aim) not in (1, count):
        config = dataclasses.replace(config, multiplier=dataclasses.replace(config.multiplier, aim=None))
    return dataclasses.replace(
        job, algorithm=algorithm, agent=config, environments=(agent.environment,), seeds=(agent.seed,)
    )


def save_policy(folder: Path, program: Program, state: PyTree, run: Run) -> None:
    """Write the policies of all environments and seeds, and which seed did best where."""
    job = program.job
    policies = program.trainer.policy(state)
    if program.trainer.memory:
        memory.write_pasts(folder, _pasts(program, state, policies))
    best = []
    for index, environment in enumerate(job.environments):
        each = run.by_seed(index)
        best.append(job.seeds[best_place(each, environment.budgets) if each else 0])
    _write(folder, policies, job, best)


def _pasts(program: Program, state: PyTree, policies: PyTree) -> dict[tuple[int, int], Past]:
    assert program.trainer.memory
    rows = np.asarray(jax.vmap(jax.vmap(program.trainer.memory))(state))
    found = {}
    for environment, where in enumerate(program.job.environments):
        for index in range(len(program.job.seeds)):
            own = program.trainer.crop(_pick(policies, environment, index), where.scene.layout)
            found[environment, index] = memory.make_past(rows[environment, index], own.learner.phi, where.scene.layout)
    return found


def _write(folder: Path, policies: PyTree, job: Job, best: list[int]) -> None:
    storage.write_tensors(folder / "policy.safetensors", to_arrays(policies), {"safedsr": str(FORMAT)})
    # The words come last: a folder that has them holds a policy.
    storage.write_json(folder / "policy.json", {"format": FORMAT, "best": best, "job": job.to_dict()})


def exact(function: Any, job: Job) -> Any:
    """The function with matrix products of the precision that the job was trained with."""

    @functools.wraps(function)
    def with_precision(*args: Any) -> Any:
        with precision(job.train.matmul):
            return function(*args)

    return with_precision


def load(path: str | Path, seed: int | None = None, environment: int = 0) -> Agent:
    """A policy from a run folder; without `seed`, the one with most safe goals in that environment."""
    folder, job, policies, best = _read(path)
    if not 0 <= environment < len(job.environments):
        raise UserError(f"environment is {environment}; the run has {len(job.environments)}, counted from 0")
    chosen = best[environment] if seed is None else seed
    if chosen not in job.seeds:
        raise UserError(f"seed is {chosen}; the run has {', '.join(map(str, job.seeds))}")
    index = job.seeds.index(chosen)
    past = memory.read_pasts(folder).get((environment, index))
    agent = Agent(job, _pick(policies, environment, index), environment, chosen, past)
    return agent.with_policy(agent.trainer.crop(agent.policy, agent.environment.scene.layout))


def load_all(path: str | Path) -> dict[tuple[int, int], Agent]:
    """Every policy of a run folder by (environment, seed); what one of them compiles serves all."""
    folder, job, policies, _ = _read(path)
    first, pasts, agents = Agent(job, _pick(policies, 0, 0), 0, job.seeds[0]), memory.read_pasts(folder), {}
    for environment in range(len(job.environments)):
        for index, seed in enumerate(job.seeds):
            agents[environment, seed] = first.changed(
                policy=first.trainer.crop(
                    _pick(policies, environment, index), job.environments[environment].scene.layout
                ),
                environment=job.environments[environment],
                seed=seed,
                past=pasts.get((environment, index)),
            )
    return agents


def _pick(policies: PyTree, environment: int, index: int) -> PyTree:
    return jax.tree.map(lambda x: x[environment, index], policies)


def _read(path: str | Path) -> tuple[Path, Job, PyTree, list[int]]:
    """A run folder, its job, its policies [E, S] and the best seed of each environment."""
    folder = Path(path)
    if folder.name in ("policy.safetensors", "policy.json"):
        folder = folder.parent
    if not (folder / "policy.json").is_file():
        hint = "give a run folder"
        if (folder / "manifest.json").is_file():
            read_manifest(folder)  # a packed folder says so itself
            hint = "it has not finished: --resume it"
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
    return folder, job, from_arrays(shape, arrays, str(folder / "policy.safetensors")), about["best"]
