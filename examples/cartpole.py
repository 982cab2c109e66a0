"""CartPole with a closed side of the track, as a Gymnasium environment or as a JAX environment of gymnax.

    python examples/cartpole.py gymnasium safedqn --seeds 10 --out runs/cart
    pip install gymnax six && python examples/cartpole.py gymnax safedqn --seeds 10 --out runs/cart-jax

Same cost function, same settings; the table has 100 episodes of each seed's policy.
"""

import argparse
from typing import Any

import safedsr
from safedsr.agent import evaluate_run
from safedsr.agents.registry import find_algorithm
from safedsr.cli.display import progress_bar
from safedsr.engine.lanes import use_cores
from safedsr.engine.train import train
from safedsr.envs import from_gymnasium, from_gymnax, make_task
from safedsr.runs.metrics import summarize
from safedsr.validation import with_settings

BUDGET, LIMIT = 5, 200
SETTINGS: dict[str, Any] = {
    "epsilon_end": 0.05,
    "epsilon_from": 1_000,
    "epsilon_to": 20_000,
    "lam_lr": 0.005,
    "penalty_start": 10_000,
    "train_start": 1_000,
}


def one_side(obs, action, next_obs, reward, info, limit=0.3):
    """1 in each step that ends to the right of `limit`."""
    return next_obs[0] > limit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("where", choices=("gymnasium", "gymnax"))
    parser.add_argument("algorithm", nargs="?", default="safedqn")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--copies", type=int, help="copies of the Gymnasium environment for each seed")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    use_cores(args.seeds)
    if args.where == "gymnasium":
        env = from_gymnasium("CartPole-v1", cost=one_side, time_limit=LIMIT)
    else:
        env = from_gymnax("CartPole-v1", {"max_steps_in_episode": LIMIT}, cost=one_side)
    usual = find_algorithm(args.algorithm).default
    agent = with_settings(usual, SETTINGS if hasattr(usual, "epsilon") else {})
    seeds = tuple(range(args.seeds))
    training = safedsr.TrainConfig(steps=args.steps, copies=args.copies)
    job = safedsr.Job(args.algorithm, (make_task(env, BUDGET),), seeds, agent, env, training)
    with progress_bar(args.algorithm) as show:
        train(job, args.out, show)
    rows = [found for _, _, found in evaluate_run(args.out, episodes=100, environment=env)]
    for name, values in (
        ("return", [row.reward.value for row in rows]),
        ("safe episodes", [row.safe_goal_rate.value for row in rows]),
        ("cost", [row.cost[0].value for row in rows]),
    ):
        s = summarize(values)
        print(f"{name:14} IQM {s.iqm:.3f} ({s.low:.3f} … {s.high:.3f})  {' '.join(f'{v:.3g}' for v in values)}")


if __name__ == "__main__":
    main()
