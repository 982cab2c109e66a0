"""Settings chosen by Optuna: a trial trains all seeds in one program, and the safe goals of their policies judge it.

    pip install optuna && python examples/optuna_search.py --trials 20 --out searches/first

The same command again adds trials to the study. Ranges without a model behind the choice: `safedsr sweep --sample`.
"""

import argparse
import sys
from pathlib import Path

from safedsr.agent import evaluate_run
from safedsr.agents.registry import find_algorithm
from safedsr.engine.lanes import use_cores
from safedsr.engine.train import train
from safedsr.runs.config import TrainConfig
from safedsr.runs.job import grid_job, tasks_for
from safedsr.runs.metrics import summarize
from safedsr.validation import with_settings

try:
    import optuna
except ImportError:
    sys.exit("this example needs Optuna: pip install optuna")

ALGORITHM = "safedsr-plus"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--layout", default="one-room")
    parser.add_argument("--costs", default="diamond")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    use_cores(args.seeds)
    tasks = tasks_for(ALGORITHM, [args.layout], [args.costs])

    def safe_goal_rate(trial: optuna.Trial) -> float:
        settings = {
            "learning_rate": trial.suggest_float("learning_rate", 1e-5, 1e-2, log=True),
            "gamma": trial.suggest_categorical("gamma", [0.9, 0.95, 0.99]),
            "batch_size": trial.suggest_categorical("batch_size", [64, 128, 256]),
        }
        agent = with_settings(find_algorithm(ALGORITHM).default, settings)
        job = grid_job(ALGORITHM, tasks, range(args.seeds), agent, train=TrainConfig(steps=args.steps))
        folder = train(job, args.out / f"{trial.number:04d}")
        return summarize([found.safe_goal_rate.value for _, _, found in evaluate_run(folder, episodes=200)]).iqm

    args.out.mkdir(parents=True, exist_ok=True)
    storage = f"sqlite:///{args.out.absolute()}/study.db"
    study = optuna.create_study(storage=storage, study_name="safedsr", direction="maximize", load_if_exists=True)
    study.optimize(safe_goal_rate, n_trials=args.trials)
    flags = {"layout": args.layout, "costs": args.costs, **study.best_params}
    words = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in flags.items())
    print(f"safe goal rate {study.best_value:.3f}: safedsr train {ALGORITHM} {words}")


if __name__ == "__main__":
    main()
