"""What the loop on the host makes of the records of a chunk: rows of tables, and what is shown."""

import jax
import numpy as np

from safedsr.engine.program import Program
from safedsr.engine.progress import Progress
from safedsr.runs.job import Job
from safedsr.runs.metrics import Episodes, within
from safedsr.runs.progress import Row, outcome
from safedsr.runs.storage import Columns
from safedsr.types import Record


def episodes(records: Record, step: int, job: Job) -> Columns:
    """The episodes that ended in the chunk that started at `step`."""
    done = np.asarray(records.done)  # [E, S, steps]
    task, seed, when = np.nonzero(done)
    cost = np.asarray(records.cost)[done]
    return {
        "environment": task.astype(np.int32),
        "seed": np.asarray(job.seeds, np.int64)[seed],
        "end_step": (step + 1 + when).astype(np.int64),
        "length": np.asarray(records.length)[done],
        "return": np.asarray(records.ret)[done],
        **{f"cost_{j}": cost[:, j] for j in range(cost.shape[1])},
        "success": np.asarray(records.success)[done],
    }


def curves(losses: dict[str, np.ndarray], lam: np.ndarray, step: int, job: Job) -> Columns:
    """One row for each task and seed: λ and the chunk's mean losses."""
    tasks, seeds = lam.shape[:2]
    rows = tasks * seeds
    return {
        "environment": np.repeat(np.arange(tasks, dtype=np.int32), seeds),
        "seed": np.tile(np.asarray(job.seeds, np.int64), tasks),
        "step": np.full(rows, step, np.int64),
        **{f"lam_{j}": lam[..., j].reshape(rows) for j in range(lam.shape[2])},
        **{name: np.asarray(losses[name], np.float32).reshape(rows) for name in losses},
    }


def rows(episodes: Columns, curves: Columns, seconds: float, job: Job) -> list[Row]:
    """The rows of a chunk for progress.csv: what its episodes reached, then λ and losses."""
    costs = [episodes[f"cost_{j}"] for j in range(job.num_costs)]
    table = Episodes(
        end_step=episodes["end_step"],
        length=episodes["length"],
        ret=episodes["return"],
        cost=np.stack(costs, 1) if costs else np.zeros((len(episodes["seed"]), 0)),
        success=episodes["success"],
    )
    rows = []
    for lane in range(job.lanes):
        about = {name: values[lane].item() for name, values in curves.items()}
        task = job.tasks[about.pop("environment")]
        seed, step = about.pop("seed"), about.pop("step")
        here = (episodes["environment"] == lane // len(job.seeds)) & (episodes["seed"] == seed)
        reached = outcome(Episodes(*(column[here] for column in table)), task.budgets, job.terms)
        where = {"step": step, "seconds": round(seconds, 3), "environment": task.title, "seed": seed}
        rows.append({**where, **reached, **about})
    return rows


def trajectories(records: Record, step: int, program: Program) -> Columns:
    """Positions [steps, E, S, 2] of all tasks and seeds in a chunk."""
    position = program.job.environment.position
    assert position
    of_lane = jax.vmap(position, (0, None))
    where = jax.vmap(jax.vmap(of_lane, (0, None)), (0, 0))(records.obs, program.params)
    return {
        "step": step + 1 + np.arange(where.shape[2]),
        "position": np.moveaxis(np.asarray(where), 2, 0),
        "done": np.moveaxis(np.asarray(records.done), 2, 0),
    }


def progress(episodes: Columns, lam: np.ndarray, step: int, count: int, job: Job) -> Progress:
    """What is shown after a chunk of `count` steps."""
    ended = len(episodes["seed"])
    success = episodes["success"]
    budgets = np.array([task.budgets for task in job.tasks])[episodes["environment"]]  # [n, J]
    cost = np.stack([episodes[f"cost_{j}"] for j in range(job.num_costs)], 1) if job.num_costs else budgets
    rate, safe_rate = (float(x.mean()) if ended else 0.0 for x in (success, success & within(cost, budgets)))
    ret = float(episodes["return"].mean()) if ended else 0.0
    costs = tuple(float(column.mean()) if ended else 0.0 for column in cost.T)
    return Progress(
        step,
        job.train.steps,
        count,
        rate,
        safe_rate,
        float(lam.mean()) if lam.size else 0.0,
        lam.shape[0] * lam.shape[1],
        ret=None if job.terms.goals else ret,
        cost=costs if job.terms.on_mean else None,
    )
