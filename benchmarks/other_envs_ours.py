"""Our side of `other_envs.py`: SafeDQN and PPO-Lag in CartPole, and the host loop with a learner that does nothing.

    python benchmarks/other_envs_ours.py host --copies 4

`other_envs.py` starts these workers.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from other_envs_common import DQN, GAMMA, HIDDEN, PPO, PPO_EPOCHS, WARM_UP, Waiting, serve

from safedsr.agents.onpolicy.config import DEFAULTS
from safedsr.agents.safedqn.config import SafeDqnConfig
from safedsr.core.config import EpsilonSchedule
from safedsr.engine.lanes import use_cores
from safedsr.engine.program import Program
from safedsr.engine.programs import program_for
from safedsr.envs.environment import Environment, make_task
from safedsr.runs.config import TrainConfig
from safedsr.runs.job import Job
from safedsr.types import Choice, Draws, PyTree, Seen, Trainer
from safedsr.validation import with_settings

ENDLESS = 10**9  # steps of a training that no turn ends
TURNS = 10  # steps of each copy between two calls of a learner that does nothing
BUDGET = 10.0


def far_out(obs: Any, action: Any, next_obs: Any, reward: Any, info: Any, edge: float = 1.1) -> Any:
    """The cost of CartPole: the cart is far from the middle."""
    return abs(next_obs[0]) > edge


def dqn_settings() -> SafeDqnConfig:
    """SafeDQN with the sizes that both sides have."""
    return SafeDqnConfig(
        epsilon=EpsilonSchedule(1.0, DQN["epsilon"], 0, DQN["explore"]),
        gamma=GAMMA,
        batch_size=DQN["batch_size"],
        buffer_size=DQN["buffer_size"],
        learning_rate=DQN["learning_rate"],
        train_start=DQN["start"],
        train_every=DQN["every"],
        sync_every=DQN["sync"],
        hidden=HIDDEN,
    )


def ppo_settings() -> Any:
    """PPO-Lag with the sizes that both sides have; every pass is made, however far the policy has moved."""
    sizes = {
        "steps_per_epoch": PPO["steps"],
        "batch_size": PPO["minibatch"],
        "update_iters": PPO["passes"],
        "actor_lr": PPO["learning_rate"],
        "critic_lr": PPO["learning_rate"],
        "gae_lambda": PPO["gae_lambda"],
        "clip": PPO["clip"],
        "gamma": GAMMA,
        "hidden": HIDDEN,
        "decay_steps": 0,
        "target_kl": 1e9,
    }
    return with_settings(DEFAULTS["ppo-lag"], sizes)


def make_job(algorithm: str, environment: Environment, agent: Any, seeds: int, **train: Any) -> Job:
    """A training without an end."""
    steps = ENDLESS // agent.period * agent.period
    task = make_task(environment, BUDGET)
    return Job(algorithm, (task,), tuple(range(seeds)), agent, environment, TrainConfig(steps=steps, **train))


def chunks(program: Program, chunk: int, warm_up: int) -> Callable[[], int]:
    """A function that runs one chunk of all seeds; the first steps, which compile, are taken here."""
    state, step, seeds = program.init(), 0, len(program.job.seeds)

    def take() -> int:
        nonlocal state, step
        end = program.trainer.phase_at(step)[1]
        count = chunk if end is None else min(end - step, chunk)
        state, _, _ = jax.block_until_ready(program.advance(state, step, count))
        step += count
        return count * seeds

    while step < warm_up:
        take()
    return take


def make_host(options: argparse.Namespace) -> Callable[[], int]:
    """SafeDQN in Gymnasium's CartPole, through the host loop."""
    from safedsr.envs.host import from_gymnasium

    environment = from_gymnasium("CartPole-v1", cost=far_out)
    job = make_job("safedqn", environment, dqn_settings(), options.seeds, copies=options.copies or None)
    return chunks(program_for(job), job.chunk, WARM_UP)


def make_compiled(options: argparse.Namespace) -> Callable[[], int]:
    """SafeDQN in gymnax' CartPole, compiled together."""
    from safedsr.envs.gymnax import from_gymnax

    job = make_job("safedqn", from_gymnax("CartPole-v1", cost=far_out), dqn_settings(), options.seeds)
    return chunks(program_for(job), job.chunk, 2 * job.chunk)


def make_ppo(options: argparse.Namespace) -> Callable[[], int]:
    """PPO-Lag in gymnax' CartPole."""
    from safedsr.envs.gymnax import from_gymnax

    chunk = PPO_EPOCHS * PPO["steps"]
    job = make_job("ppo-lag", from_gymnax("CartPole-v1", cost=far_out), ppo_settings(), options.seeds)
    return chunks(program_for(job), chunk, chunk)


class Idle(NamedTuple):
    """The state of a learner that does nothing: the key of its random actions."""

    key: Array


def idle_trainer(block: int, period: int, actions: int, costs: int) -> Trainer:
    """A trainer whose actions are random and which learns nothing."""

    def draw(state: Idle) -> tuple[Idle, Draws]:
        key, luck_key, env_key = jax.random.split(state.key, 3)
        luck = jax.random.randint(luck_key, (block,), 0, actions)
        return Idle(key), Draws(luck, jax.random.split(env_key, block), reset=None)

    def observe(state: Idle, choice: Choice, seen: Seen, aim: Array, now: Array, phase: str) -> tuple[Idle, Array]:
        return state, seen.obs

    def digest(state: Idle, cache: None, rows: Array, params: PyTree, aim: Array, now: Array, phase: str):
        return state, cache, {"none": jnp.zeros(())}

    return Trainer(
        init=lambda key, seed, params: (Idle(key), key),
        draw=draw,
        begin=lambda state, obs: state,
        choose=lambda state, obs, luck, now: Choice(luck),
        observe=observe,
        digest=digest,
        sync=lambda state: state,
        cache=lambda state, phase: None,
        phase_at=lambda step: ("idle", None),
        last_phase="idle",
        block=block,
        period=period,
        policy=lambda state: state,
        values=lambda policy, obs: policy,
        multipliers=lambda state: jnp.zeros(costs),
    )


def no_cost(obs: Any, action: Any, next_obs: Any, reward: Any, info: Any) -> float:
    """A cost, as every constrained training has one."""
    return 0.0


def make_idle(options: argparse.Namespace) -> Callable[[], int]:
    """The host loop around an environment that waits, with a learner that does nothing."""
    from safedsr.engine.host_loop import HostProgram
    from safedsr.envs.host import from_gymnasium

    environment = from_gymnasium(partial(Waiting, options.wait), cost=no_cost, name="waiting")
    block = TURNS * options.copies
    agent = with_settings(dqn_settings(), {"train_every": 1, "sync_every": block, "train_start": block})
    ways = {"copies": options.copies, "processes": options.processes}
    job = make_job("safedqn", environment, agent, 1, **ways)
    trainer = idle_trainer(block, block, environment.spec.actions, environment.spec.costs)
    return chunks(HostProgram(job, trainer), job.chunk, block)


def main() -> None:
    """Work as told."""
    began = time.perf_counter()
    makers = {"host": make_host, "compiled": make_compiled, "ppo": make_ppo, "idle": make_idle}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("who", choices=makers)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--copies", type=int, default=0, help="copies of the environment; 0: as in a training")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds of a step of the environment that waits")
    parser.add_argument("--processes", type=int, default=0, help="processes that step the copies")
    options = parser.parse_args()
    use_cores(options.seeds)
    serve(makers[options.who](options), began)


if __name__ == "__main__":
    main()
