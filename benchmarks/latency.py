"""Time of one action: `agent.act` beside the NumPy controller and ONNX Runtime on one core, networks of usual size.

python benchmarks/latency.py
"""

import tempfile
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
from timing import interleave

from safedsr.agent import Agent
from safedsr.agents.registry import find_algorithm
from safedsr.field.controller import Controller
from safedsr.runs.job import grid_job, tasks_for

CALLS, REPEATS = 300, 15
ALGORITHMS = ("safedsr-plus", "safedsr", "safedqn", "ppo-lag")


def fresh(algorithm: str) -> Agent:
    """An agent in two rooms with networks as they start."""
    tasks = tasks_for(algorithm, ["two-rooms"], ["diamond"])
    job = grid_job(algorithm, tasks, (0,), find_algorithm(algorithm).default)
    agent = Agent(job, None, 0, 0)
    state, _ = agent.trainer.init(jax.random.key(0), jnp.uint32(0), tasks[0].params)
    return agent.with_policy(agent.trainer.policy(state))


def main() -> None:
    observations = np.random.default_rng(0).random((CALLS, 2)).astype(np.float32)
    print("µs for one action, and how many times as fast as agent.act")
    for algorithm in ALGORITHMS:
        agent = fresh(algorithm)
        with tempfile.TemporaryDirectory() as folder:
            files = {kind: Path(folder) / f"policy.{kind}" for kind in ("npz", "onnx")}
            for path in files.values():
                agent.export(path)
            controller, options = Controller(files["npz"]), onnxruntime.SessionOptions()
            options.intra_op_num_threads, options.log_severity_level = 1, 3
            session = onnxruntime.InferenceSession(str(files["onnx"]), options)
        acts = {
            "agent.act": agent.act,
            "NumPy": controller.act,
            "ONNX Runtime": lambda obs, session=session: session.run(["action"], {"observation": obs[None]}),
        }
        works = {name: partial(lambda act: [act(obs) for obs in observations], act) for name, act in acts.items()}
        found = {name: 1e6 * seconds / CALLS for name, seconds in interleave(works, REPEATS).items()}
        first = found["agent.act"]
        print(f"{algorithm:13}", *(f"{name} {time:.0f} ({first / time:.1f})" for name, time in found.items()), sep="  ")


if __name__ == "__main__":
    main()
