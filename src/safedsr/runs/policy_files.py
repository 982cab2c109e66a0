"""The files of trained policies: policy.safetensors, and policy.json, which says what they belong to."""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from safedsr.agents.registry import make_trainer
from safedsr.envs.chosen import same_costs
from safedsr.envs.environment import Environment
from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.runs.about import ABOUT, FORMAT, TENSORS, read_about
from safedsr.runs.arrays import from_arrays, to_arrays
from safedsr.runs.format1 import upgrade_config, upgrade_names
from safedsr.runs.job import Job, job_from_dict
from safedsr.types import PyTree
from safedsr.validation import LARGEST, in_file, require, typed


class Mixture(NamedTuple):
    """A second λ, and the share of episodes that act with it; each episode draws one of both at its start."""

    lam: tuple[float, ...]
    share: float


class Stored(NamedTuple):
    """What the files of a folder hold."""

    folder: Path
    job: Job
    policies: PyTree  # [E, S]
    best: list[int]  # the best seed of each task
    mixture: Mixture | None
    knows_costs: bool  # False if weights and K are of other costs than those of the task


def write_policies(
    folder: Path,
    policies: PyTree,
    job: Job,
    best: list[int],
    mixture: Mixture | None = None,
    knows_costs: bool = True,
) -> None:
    """Write the policies [E, S] of a job; policy.json is last, because a folder that has it holds a whole policy."""
    storage.write_tensors(folder / TENSORS, to_arrays(policies), {"safedsr": str(FORMAT)})
    mixed = {"mixture": mixture._asdict()} if mixture else {}
    unknown = {} if knows_costs else {"knows_costs": False}
    about = {"format": FORMAT, "best": best, **mixed, **unknown, "job": job.to_dict()}
    storage.write_json(folder / ABOUT, about, signed=True)


def read_policies(path: str | Path, environment: Environment | None) -> Stored:
    """The policies of a run folder or of a saved policy."""
    folder, about = read_about(path)
    found = about["format"]
    arrays, metadata = storage.read_tensors(folder / TENSORS)
    if metadata.get("safedsr") != str(found):
        raise UserError(f"{folder / TENSORS} was not written by this version of safedsr; train again")
    if found == 1:
        arrays = upgrade_names(arrays)
    with in_file(folder / ABOUT):
        config = upgrade_config(about["job"])
        job = job_from_dict(config, environment)
        knows_costs = typed(bool, about.get("knows_costs", True), "knows_costs")
        best = about["best"]
        fine = len(best) == len(job.tasks) and set(best) <= set(job.seeds)
        require(fine, "best", best, f"give one of the seeds for each of the {len(job.tasks)} tasks")
        mixture = _mixture(about.get("mixture"), job)
        shape = policy_shape(job)
    policies = from_arrays(shape, arrays, str(folder / TENSORS))
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise UserError(
                f"{folder / TENSORS}: '{name}' is not finite everywhere; train again, or use another policy"
            )
    same = same_costs(job.environment, config["environment"])
    return Stored(folder, job, policies, best, mixture, knows_costs and same)


def _mixture(data: Any, job: Job) -> Mixture | None:
    """What policy.json says about a mixture, which only a policy of one task and seed can be."""
    if data is None:
        return None
    alone = len(job.tasks) == len(job.seeds) == 1
    require(alone, "mixture", data, "a mixture is one policy, of one task and one seed")
    count = len(job.tasks[0].budgets)
    fine = len(data["lam"]) == count and all(0 <= value <= LARGEST for value in data["lam"]) and 0 <= data["share"] <= 1
    require(fine, "mixture", data, f"give {count} numbers of at least 0 as 'lam' and a share from 0 to 1")
    return Mixture(tuple(map(float, data["lam"])), float(data["share"]))


def policy_shape(job: Job) -> PyTree:
    """Shapes and types of all policies [E, S] of a job, without computing them."""
    trainer, lanes = make_trainer(job.algorithm, job.agent, job.environment), (len(job.tasks), len(job.seeds))
    params = jax.tree.map(lambda x: x[0], job.environment.stack([task.params for task in job.tasks]))

    def policy(key: jax.Array, seed: jax.Array) -> PyTree:
        return trainer.policy(trainer.init(key, seed, params)[0])

    one = jax.eval_shape(policy, jax.random.key(0), jnp.uint32(0))
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct((*lanes, *x.shape), x.dtype), one)
