"""A controller that changes its costs while it runs. It acts with NumPy alone; Gymnasium simulates the world.

    safedsr train safedsr-plus --layout examples/lab.txt --costs fire --budget 5 --steps 50000 --out runs/lab
    safedsr export runs/lab --out policy.npz
    safedsr adapt runs/lab --costs examples/lab-moved.txt --level penalty --weights-out w.json
    python examples/changing_costs.py policy.npz w.json

After some episodes the fire moves onto the way of the controller. The monitor finds that the certificate no longer
holds; then the controller gets its new weights, a file of a few kilobytes, and goes on.
"""

import argparse
import json
from pathlib import Path

import gymnasium
from controller import Controller
from monitor import Monitor

import safedsr  # noqa: F401  (it registers the grid)

HERE = Path(__file__).parent


def run_episode(env, controller, monitor):
    """One episode; returns its cost and whether the certificate still holds."""
    obs, info = env.reset()
    cost, done = 0.0, False
    while not done:
        obs, _, terminated, truncated, info = env.step(controller.act(obs))
        cost, done = cost + info["cost"], terminated or truncated
        monitor.step(info["costs"], done)
    return cost, monitor.holds


def run(policy, weights, layout, moved, episodes=20):
    """Episodes with the first costs, with the new ones until the monitor raises an alarm, and after the update."""
    controller = Controller(policy)
    monitor = Monitor.of(json.loads(controller.about)["certificate"])
    env = gymnasium.make("safedsr/Grid-v0", layout=layout)
    env.reset(seed=0)
    phase, costs, holds = "first costs", [], True
    while True:
        cost, holds = run_episode(env, controller, monitor)
        costs.append(cost)
        if holds and len(costs) < episodes:
            continue
        yield phase, costs, holds
        if phase == "first costs":
            env.unwrapped.set_costs(moved)
            phase = "the fire has moved"
        elif phase == "the fire has moved":
            new = json.loads(Path(weights).read_text(encoding="utf-8"))
            controller.update(new)
            monitor = Monitor.of(new["certificate"])
            phase = "new weights"
        else:
            return
        costs = []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", help="policy.npz of safedsr export")
    parser.add_argument("weights", help="w.json of safedsr adapt --weights-out")
    parser.add_argument("--layout", default=str(HERE / "lab.txt"))
    parser.add_argument("--moved", default=str(HERE / "lab-moved.txt"))
    args = parser.parse_args()
    for phase, costs, holds in run(args.policy, args.weights, args.layout, args.moved):
        mean, word = sum(costs) / len(costs), "holds" if holds else "no longer holds"
        print(f"{phase:20} {len(costs):3} episodes, mean cost {mean:.2f}, the certificate {word}")


if __name__ == "__main__":
    main()
