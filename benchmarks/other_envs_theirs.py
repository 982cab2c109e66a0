# pyright: reportMissingImports=false
# Stable-Baselines3 and rejax live in environments of their own.
"""The other side of `other_envs.py`: Stable-Baselines3, rejax, and the vector environments of Gymnasium.

    python benchmarks/other_envs_theirs.py sb3 --copies 4 --threads 1

`other_envs.py` starts these workers.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

from other_envs_common import DQN, GAMMA, HIDDEN, PPO, PPO_EPOCHS, WARM_UP, Waiting, serve

SB3_STEPS = 200  # of one call
VECTOR_STEPS = 10  # of all copies, between two looks at the clock


def make_sb3(options: argparse.Namespace) -> Callable[[], int]:
    """DQN of Stable-Baselines3 in Gymnasium's CartPole; one update for as many steps as ours."""
    import torch
    from stable_baselines3 import DQN as Dqn
    from stable_baselines3.common.env_util import make_vec_env

    if options.threads:
        torch.set_num_threads(options.threads)
    if DQN["every"] % options.copies:
        raise SystemExit(f"{options.copies} copies: choose a divisor of {DQN['every']}, the steps between two updates")
    learner = Dqn(
        "MlpPolicy",
        make_vec_env("CartPole-v1", options.copies, seed=options.seed),
        learning_rate=DQN["learning_rate"],
        buffer_size=DQN["buffer_size"],
        learning_starts=DQN["start"],
        batch_size=DQN["batch_size"],
        gamma=GAMMA,
        train_freq=DQN["every"] // options.copies,  # steps of all copies
        gradient_steps=1,
        target_update_interval=DQN["sync"],
        exploration_fraction=0.1,  # of the steps of a call, so that ε is at its end in all calls but the first
        exploration_final_eps=DQN["epsilon"],
        policy_kwargs={"net_arch": list(HIDDEN)},
        device="cpu",
        seed=options.seed,
    )
    silent = 10**9  # episodes between two messages
    learner.learn(WARM_UP, log_interval=silent)

    def take() -> int:
        before = learner.num_timesteps
        learner.learn(SB3_STEPS, log_interval=silent, reset_num_timesteps=False)
        return learner.num_timesteps - before

    return take


def make_rejax(options: argparse.Namespace) -> Callable[[], int]:
    """PPO of rejax in gymnax' CartPole, without evaluations; `copies` share the steps of an epoch."""
    import jax
    from rejax import PPO as Ppo

    steps = PPO_EPOCHS * PPO["steps"]
    learner = Ppo.create(
        env="CartPole-v1",
        agent_kwargs={"hidden_layer_sizes": HIDDEN, "activation": "tanh"},
        num_envs=options.copies,
        num_steps=PPO["steps"] // options.copies,
        num_epochs=PPO["passes"],
        num_minibatches=PPO["steps"] // PPO["minibatch"],
        learning_rate=PPO["learning_rate"],
        gamma=GAMMA,
        gae_lambda=PPO["gae_lambda"],
        clip_eps=PPO["clip"],
        normalize_observations=True,
        total_timesteps=steps,
        eval_freq=steps,
        skip_initial_evaluation=True,
    ).replace(eval_callback=lambda learner, state, key: ())
    train = jax.jit(lambda state: learner.train(train_state=state)[0])
    state = jax.block_until_ready(train(learner.init_state(jax.random.PRNGKey(options.seed))))

    def take() -> int:
        nonlocal state
        state = jax.block_until_ready(train(state))
        return steps

    return take


def make_vector(options: argparse.Namespace) -> Callable[[], int]:
    """Random actions in copies that Gymnasium steps one after the other, or each in a process of its own."""
    from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

    makers = [partial(Waiting, options.wait)] * options.copies
    envs = AsyncVectorEnv(makers) if options.processes else SyncVectorEnv(makers)
    envs.reset(seed=options.seed)

    def take() -> int:
        for _ in range(VECTOR_STEPS):
            envs.step(envs.action_space.sample())
        return VECTOR_STEPS * options.copies

    return take


def main() -> None:
    """Work as told."""
    began = time.perf_counter()
    makers = {"sb3": make_sb3, "rejax": make_rejax, "vector": make_vector}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("who", choices=makers)
    parser.add_argument("--copies", type=int, default=1, help="copies of the environment")
    parser.add_argument("--threads", type=int, default=0, help="threads of PyTorch; 0 leaves its own choice")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds of a step of the environment that waits")
    parser.add_argument("--processes", type=int, default=0, help="0: none; else one for each copy")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    serve(makers[options.who](options), began)


if __name__ == "__main__":
    main()
