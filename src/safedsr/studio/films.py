"""Environments that are no maps: an episode as frames, with other parameters of the cost functions."""

import base64
import io
from typing import Any

import numpy as np
from PIL import Image

from safedsr.agent import Agent
from safedsr.engine.record import Recorded, record
from safedsr.envs.environment import Task
from safedsr.errors import UserError
from safedsr.runs.metrics import within

MOST_FRAMES, WIDTH = 120, 420  # of an episode; pixels


def film(before: Agent, now: Agent, task: Task, epsilon: float, seed: int) -> dict[str, Any]:
    """One episode of each agent with the same random numbers; the same film twice if they are the same agent."""
    if not now.job.environment.host:
        raise UserError(
            f"the environment '{now.job.environment.name}' draws no pictures; a film needs one of Gymnasium"
        )
    first = _filmed(record(before, task, epsilon, seed), before, task)
    return {"before": first, "now": first if now is before else _filmed(record(now, task, epsilon, seed), now, task)}


def _filmed(found: Recorded, agent: Agent, task: Task) -> dict[str, Any]:
    last = len(found.ret) - 1
    steps = np.unique(np.linspace(0, last, min(MOST_FRAMES, last + 1)).round().astype(int))
    fine = bool(within(found.cost[-1:], task.budgets)[0])
    return {
        "frames": [_jpeg(found.pictures[step]) for step in steps],
        "steps": steps.tolist(),
        "costs": found.cost[steps].tolist(),
        "returns": found.ret[steps].tolist(),
        "safe": fine and (found.success or not agent.job.terms.success),
    }


def _jpeg(picture: np.ndarray) -> str:
    image = Image.fromarray(picture)
    if image.width > WIDTH:
        image = image.resize((WIDTH, round(image.height * WIDTH / image.width)))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=80)
    return base64.b64encode(file.getvalue()).decode()
