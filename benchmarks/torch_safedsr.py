# pyright: reportMissingImports=false
# PyTorch comes with the extra "bench" only.
"""SafeDSR (Alg. 2, Table 2) as one writes it in PyTorch: one seed, one walker, one update at a time.

Written from the paper, for `benchmarks/dsr.py` to be measured against; `python benchmarks/torch_safedsr.py` trains
with it and prints goal counts. Nothing of the algebra that we use is in it, but nothing is wasted either: no gradient
is kept where none is needed, and the four actions of a batch go through the networks together.
"""

import argparse
import copy
import time
from itertools import pairwise

import numpy as np
import torch
from plain_grid import Walker
from torch import Tensor, nn
from torch.nn.functional import mse_loss, normalize, one_hot

from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.envs.grid.catalog import load_scene
from safedsr.envs.grid.layout import Layout

ACTIONS = 4
CONFIG = SafeDsrConfig()


class Rows:
    """Transitions: the latest ones, and a fair sample of those with each value of the reward and of the cost."""

    def __init__(self, rng: np.random.Generator):
        self.rng, self.count = rng, 0
        self.ring = np.zeros((CONFIG.buffer_size, 8), np.float32)  # obs 2, action, reward, cost, terminated, next obs 2
        self.kinds: list[dict[float, list[np.ndarray]]] = [{}, {}]
        self.seen: dict[tuple[int, float], int] = {}

    def add(self, row: np.ndarray) -> None:
        """Remember a transition."""
        self.ring[self.count % len(self.ring)] = row
        self.count += 1
        for signal, value in enumerate((row[3], row[4])):
            kept = self.kinds[signal].setdefault(value, [])
            nth = self.seen[signal, value] = self.seen.get((signal, value), 0) + 1
            if len(kept) < CONFIG.reservoir_size:
                kept.append(row)
            elif (slot := self.rng.integers(nth)) < len(kept):
                kept[slot] = row

    def sample(self, size: int = CONFIG.batch_size) -> np.ndarray:
        """A batch drawn uniformly."""
        return self.ring[self.rng.integers(min(self.count, len(self.ring)), size=size)]

    def sample_biased(self) -> np.ndarray:
        """A batch with a share in which every reward, and every cost, is equally likely."""
        each = round(CONFIG.batch_size * CONFIG.biased_share / 2)
        rare = [self._rare(list(kinds.values()), each) for kinds in self.kinds]
        return np.concatenate([self.sample(CONFIG.batch_size - 2 * each), *rare])

    def _rare(self, kinds: list[list[np.ndarray]], size: int) -> np.ndarray:
        chosen = self.rng.integers(len(kinds), size=size)
        return np.stack([kinds[i][self.rng.integers(len(kinds[i]))] for i in chosen])


class Batch:
    """The columns of some rows."""

    def __init__(self, rows: np.ndarray):
        table = torch.from_numpy(rows)
        self.pairs = pairs(table[:, 0:2], table[:, 2].long())
        self.reward, self.cost, self.terminated = table[:, 3], table[:, 4], table[:, 5]
        self.next_obs = table[:, 6:8]


def pairs(obs: Tensor, action: Tensor) -> Tensor:
    """(s, a) as the networks take it."""
    return torch.cat([obs, one_hot(action, ACTIONS)], 1)


def every_pair(obs: Tensor) -> Tensor:
    """Each observation with each action, [n · 4, 6]."""
    return pairs(obs.repeat_interleave(ACTIONS, 0), torch.arange(ACTIONS).repeat(len(obs)))


def mlp(*sizes: int) -> nn.Sequential:
    """Dense layers with ReLU between them."""
    layers = [layer for n, m in pairwise(sizes) for layer in (nn.Linear(n, m), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


class Learner:
    """One training: `walk` and `update` are its two halves, `advance` goes on with both."""

    def __init__(self, layout: Layout, seed: int, budget: float = 5.0):
        torch.manual_seed(seed)
        d, inputs = CONFIG.features, 2 + ACTIONS
        self.phi, self.decoder = mlp(inputs, *CONFIG.phi_hidden, d), mlp(d, *CONFIG.decoder_hidden, inputs)
        self.successor = mlp(d, *CONFIG.successor_hidden, d)
        self.w_r, self.w_c = nn.Linear(d, 1, bias=False), nn.Linear(d, 1, bias=False)
        parts = (self.phi, self.decoder), (self.w_r, self.w_c), (self.successor,)
        self.encoder_adam, self.weights_adam, self.successor_adam = (
            torch.optim.Adam(nn.ModuleList(nets).parameters(), lr=CONFIG.learning_rate) for nets in parts
        )
        self.rng = np.random.default_rng(seed)
        self.rows, self.walker, self.budget = Rows(self.rng), Walker(layout, seed), budget
        self.obs, self.paid, self.lam, self.goals, self.safe_goals = self.walker.reset(), 0.0, 0.0, 0, 0
        self.sync()

    def sync(self) -> None:
        """Main networks into the target networks."""
        self.target_phi, self.target_successor = copy.deepcopy(self.phi), copy.deepcopy(self.successor)

    @torch.no_grad()
    def scores(self, obs: Tensor) -> Tensor:
        """Q - λ·K of every action, [n, 4]: Eqs. (8), (13) and (15)."""
        m = self.successor(normalize(self.phi(every_pair(obs))))
        return (self.w_r(m) - self.lam * self.w_c(m)).view(-1, ACTIONS)

    def walk(self, step: int, steps: int) -> None:
        """Some steps of the ε-greedy policy, remembered."""
        schedule = CONFIG.epsilon
        begin, end = schedule.span
        passed = (step - begin) / (end - begin)
        epsilon = np.interp(passed, (0, 1), (schedule.epsilon_start, schedule.epsilon_end))
        for now in range(step, step + steps):
            if self.rng.random() < epsilon:
                action = int(self.rng.integers(ACTIONS))
            else:
                action = int(self.scores(torch.tensor(self.obs[None], dtype=torch.float32)).argmax())
            next_obs, reward, cost, terminated, truncated = self.walker.step(action)
            row = np.array([*self.obs, action, reward, cost, terminated, *next_obs], np.float32)
            self.rows.add(row)
            self.obs, self.paid = next_obs, self.paid + cost
            if terminated or truncated:
                self.finish_episode(now, terminated)

    def finish_episode(self, step: int, reached: bool) -> None:
        """Count it, tune λ by Eq. (16) and start anew."""
        self.goals += reached
        self.safe_goals += reached and self.paid <= self.budget
        if step >= CONFIG.multiplier.begins:
            self.lam = max(0.0, self.lam + CONFIG.multiplier.lam_lr * (self.paid - self.budget))
        self.obs, self.paid = self.walker.reset(), 0.0

    def update(self, frozen: bool) -> None:
        """One iteration of Alg. 2's two losses."""
        biased, plain = Batch(self.rows.sample_biased()), Batch(self.rows.sample())
        if frozen:
            self.update_weights(biased)
        else:
            self.update_features(biased)
        self.update_successor(plain)

    def update_features(self, batch: Batch) -> None:
        """Eq. (14) for φ, g, w_r and w_c."""
        phi = normalize(self.phi(batch.pairs))
        loss = self.weights_loss(phi, batch) + CONFIG.beta_g * mse_loss(self.decoder(phi), batch.pairs)
        descend(loss, self.encoder_adam, self.weights_adam)

    def update_weights(self, batch: Batch) -> None:
        """Eq. (14) for w_r and w_c alone."""
        with torch.no_grad():
            phi = normalize(self.phi(batch.pairs))
        descend(self.weights_loss(phi, batch), self.weights_adam)

    def weights_loss(self, phi: Tensor, batch: Batch) -> Tensor:
        """Eq. (14) without the reconstruction."""
        reward, cost = self.w_r(phi)[:, 0], self.w_c(phi)[:, 0]
        return CONFIG.beta_r * mse_loss(reward, batch.reward) + CONFIG.beta_c * mse_loss(cost, batch.cost)

    def update_successor(self, batch: Batch) -> None:
        """Eq. (11) for M."""
        with torch.no_grad():
            best = self.scores(batch.next_obs).argmax(1)
            ahead = self.target_successor(normalize(self.target_phi(pairs(batch.next_obs, best))))
            goes_on = CONFIG.gamma * (1 - batch.terminated)[:, None]
            goal = normalize(self.target_phi(batch.pairs)) + goes_on * ahead
            phi = normalize(self.phi(batch.pairs))
        descend(mse_loss(self.successor(phi), goal), self.successor_adam)

    def advance(self, step: int, steps: int) -> None:
        """Whole trainings, as in Table 2: walk ten steps, update ten times, copy into the targets now and then."""
        for now in range(step, step + steps, CONFIG.train_every):
            self.walk(now, CONFIG.train_every)
            if now >= CONFIG.train_start:
                for _ in range(CONFIG.update_steps):
                    self.update(frozen=now >= CONFIG.freeze)
            if (now + CONFIG.train_every) % CONFIG.sync_every == 0:
                self.sync()


def descend(loss: Tensor, *optimizers: torch.optim.Optimizer) -> None:
    """One step of each optimiser."""
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()


def main() -> None:
    """Train and print goal counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layout", default="one-room")
    parser.add_argument("--costs", default="diamond")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, default=500_000)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for seed in args.seeds:
        learner, began = Learner(load_scene(args.layout, args.costs).layout, seed), time.perf_counter()
        learner.advance(0, args.steps)
        speed = args.steps / (time.perf_counter() - began)
        print(f"seed {seed}: {learner.goals} goals, {learner.safe_goals} safe, {speed:.0f} steps/s", flush=True)


if __name__ == "__main__":
    main()
