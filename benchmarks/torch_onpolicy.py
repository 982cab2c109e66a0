# pyright: reportMissingImports=false
# PyTorch comes with the extra "bench" only.
"""PPO-Lag, TRPO-PID and CPO as one writes them in PyTorch: one walker, one step at a time, one thread.

An independent reading of OmniSafe's discrete branch, kept beside ours for two comparisons: speed
(`benchmarks/onpolicy.py`) and results (`python benchmarks/torch_onpolicy.py ppo-lag --seeds 0 1` prints goal counts).
"""

import argparse
import time
from collections import deque

import numpy as np
import torch
from plain_grid import Walker
from torch import Tensor, nn
from torch.nn.functional import log_softmax
from torch_policy import Batch, constrained_step, policy_terms, trust_region_step

from safedsr.envs.grid.catalog import load_scene
from safedsr.envs.grid.layout import Layout

GAMMA, GAE_LAMBDA, EPOCH, WINDOW = 0.99, 0.95, 20_000, 50
ALGORITHMS = ("ppo-lag", "trpo-pid", "cpo")


class Normaliser:
    """Running mean and deviation of the observations; the first one passes as it is."""

    def __init__(self):
        self.count, self.mean, self.squares = 0, np.zeros(2), np.zeros(2)

    def __call__(self, obs: np.ndarray) -> Tensor:
        """Count the observation in, then normalise it."""
        self.count += 1
        before = obs - self.mean
        self.mean = self.mean + before / self.count
        self.squares = self.squares + before * (obs - self.mean)
        if self.count > 1:
            std = np.maximum(np.sqrt(self.squares / (self.count - 1)), 0.01)
            obs = ((obs - self.mean) / std).clip(-5, 5)
        return torch.tensor(obs, dtype=torch.float32)


class AdamMultiplier:
    """λ climbs the excess cost by Adam."""

    def __init__(self):
        self.lam = nn.Parameter(torch.tensor(0.001))
        self.optimizer = torch.optim.Adam([self.lam], lr=0.035)

    def update(self, excess: float, _: float) -> float:
        """One step an epoch."""
        self.lam.grad = torch.tensor(-excess)
        self.optimizer.step()
        self.lam.data.clamp_(min=0)
        return self.lam.item()


class PidMultiplier:
    """λ follows the excess cost, its sum and its slope over ten epochs."""

    def __init__(self):
        self.integral, self.proportional, self.level = 0.001, 0.0, 0.0
        self.past = deque([0.0], maxlen=10)

    def update(self, excess: float, cost: float) -> float:
        """One step an epoch."""
        self.integral = max(0.0, self.integral + 0.01 * excess)
        self.proportional = 0.95 * self.proportional + 0.05 * excess
        self.level = 0.95 * self.level + 0.05 * cost
        slope = max(0.0, self.level - self.past[0])
        self.past.append(self.level)
        return max(0.0, 0.1 * self.proportional + self.integral + 0.01 * slope)


def mlp(outputs: int) -> nn.Sequential:
    """Two hidden layers of 64, drawn as OmniSafe draws them, twice, so that a seed starts from the same networks."""
    layers: list[nn.Module] = []
    for inputs, width in ((2, 64), (64, 64), (64, outputs)):
        layer = nn.Linear(inputs, width)
        nn.init.kaiming_uniform_(layer.weight, a=5**0.5)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def advantages(rewards: np.ndarray, values: np.ndarray, ends: dict[int, float]) -> np.ndarray:
    """Generalised advantages; `ends` says what is to come after the last step of each path."""
    result, ahead, following = np.zeros(len(rewards)), 0.0, 0.0
    for t in reversed(range(len(rewards))):
        if t in ends:
            ahead, following = 0.0, ends[t]
        ahead = rewards[t] + GAMMA * following - values[t] + GAMMA * GAE_LAMBDA * ahead
        following = values[t]
        result[t] = ahead
    return result


class Learner:
    """One training: `epoch()` walks 20 000 steps and learns from them."""

    def __init__(self, algorithm: str, layout: Layout, seed: int, budget: float = 5.0, epochs: int = 25):
        torch.manual_seed(seed)
        self.algorithm, self.budget = algorithm, budget
        self.actor, self.critics = mlp(4), (mlp(1), mlp(1))
        by_gradient = algorithm == "ppo-lag"
        rate, self.minibatch = (3e-4, 64) if by_gradient else (1e-3, 128)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.schedule = torch.optim.lr_scheduler.LinearLR(self.actor_optimizer, 1.0, 0.0, epochs)
        self.critic_optimizers = [torch.optim.Adam(critic.parameters(), lr=rate) for critic in self.critics]
        self.multiplier = PidMultiplier() if algorithm == "trpo-pid" else AdamMultiplier()
        self.walker, self.normalise = Walker(layout, seed), Normaliser()
        self.costs: deque[float] = deque(maxlen=WINDOW)
        self.goals = 0

    def epoch(self) -> None:
        """Walk, then learn."""
        with torch.no_grad():
            batch = self.rollout()
        cost = float(np.mean(self.costs))
        excess = cost - self.budget
        if self.algorithm == "cpo":
            constrained_step(self.actor, batch, excess)
        else:
            lam = self.multiplier.update(excess, cost)
            gain = (batch.reward_gain - lam * batch.cost_gain) / (1 + lam)
            if self.algorithm == "ppo-lag":
                self.clipped_passes(batch, gain)
                return
            trust_region_step(self.actor, batch, gain)
        for _ in range(10):
            for rows in torch.randperm(EPOCH).split(self.minibatch):
                self.fit_critics(batch, rows)

    def rollout(self) -> Batch:
        """One epoch of steps; an episode cut by its end is forgotten."""
        observations: list[Tensor] = []
        actions: list[int] = []
        log_probs: list[float] = []
        signals, values = np.empty((2, EPOCH)), np.empty((2, EPOCH))
        ends: tuple[dict[int, float], dict[int, float]] = ({}, {})
        obs, paid = self.normalise(self.walker.reset()), 0.0
        for t in range(EPOCH):
            chances = log_softmax(self.actor(obs), 0)
            action = int(torch.multinomial(chances.exp(), 1))
            observations.append(obs)
            actions.append(action)
            log_probs.append(chances[action].item())
            values[:, t] = [critic(obs).item() for critic in self.critics]
            raw, reward, cost, terminated, truncated = self.walker.step(action)
            signals[:, t] = reward, cost
            obs, paid = self.normalise(raw), paid + cost
            if terminated or truncated or t == EPOCH - 1:
                for critic, end in zip(self.critics, ends, strict=True):
                    end[t] = 0.0 if terminated else critic(obs).item()
            if terminated or truncated:
                self.goals += terminated
                self.costs.append(paid)
                obs, paid = self.normalise(self.walker.reset()), 0.0
        gains = [advantages(*each) for each in zip(signals, values, ends, strict=True)]
        goals = [torch.tensor(gain + value, dtype=torch.float32) for gain, value in zip(gains, values, strict=True)]
        reward_gain = torch.tensor((gains[0] - gains[0].mean()) / (gains[0].std() + 1e-8), dtype=torch.float32)
        cost_gain = torch.tensor(gains[1] - gains[1].mean(), dtype=torch.float32)
        walked = torch.stack(observations), torch.tensor(actions), torch.tensor(log_probs)
        return Batch(*walked, reward_gain, cost_gain, *goals)

    def fit_critics(self, batch: Batch, rows: Tensor) -> None:
        """One step of both critics."""
        goals = batch.reward_goal, batch.cost_goal
        for critic, optimizer, goal in zip(self.critics, self.critic_optimizers, goals, strict=True):
            loss = (critic(batch.obs[rows])[:, 0] - goal[rows]).square().mean()
            loss = loss + 0.001 * sum(weight.square().sum() for weight in critic.parameters())
            descend(optimizer, loss, critic)

    def clipped_passes(self, batch: Batch, gain: Tensor) -> None:
        """PPO's passes; the divergence that stops them is summed over the samples, as OmniSafe's is."""
        before, _ = policy_terms(self.actor, batch)
        for _ in range(40):
            for rows in torch.randperm(EPOCH).split(self.minibatch):
                self.fit_critics(batch, rows)
                chances = log_softmax(self.actor(batch.obs[rows]), 1)
                taken = chances.gather(1, batch.action[rows, None])[:, 0]
                ratio = (taken - batch.log_prob[rows]).exp()
                gains = torch.min(ratio * gain[rows], ratio.clamp(0.8, 1.2) * gain[rows])
                descend(self.actor_optimizer, -gains.mean(), self.actor)
            with torch.no_grad():
                after, _ = policy_terms(self.actor, batch)
                if (before.exp() * (before - after)).sum() > 0.02:
                    break
        self.schedule.step()


def descend(optimizer: torch.optim.Optimizer, loss: Tensor, net: nn.Module) -> None:
    """One clipped gradient step."""
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 40.0)
    optimizer.step()


def main() -> None:
    """Train and print goal counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithm", choices=ALGORITHMS)
    parser.add_argument("--layout", default="one-room")
    parser.add_argument("--costs", default="none")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=int, default=25)
    args = parser.parse_args()
    torch.set_num_threads(1)
    layout = load_scene(args.layout, args.costs).layout
    for seed in args.seeds:
        learner = Learner(args.algorithm, layout, seed, epochs=args.epochs)
        began = time.perf_counter()
        for _ in range(args.epochs):
            learner.epoch()
        speed = args.epochs * EPOCH / (time.perf_counter() - began)
        print(f"{args.algorithm} seed {seed}: {learner.goals} goals, {speed:.0f} steps/s", flush=True)


if __name__ == "__main__":
    main()
