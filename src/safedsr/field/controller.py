"""A controller that needs NumPy alone, for a policy from `safedsr export RUN --out policy.npz`.

`Controller("policy.npz").act(obs)` chooses actions. After `update(new)`, where `new` is the content of the file that
`safedsr adapt … --weights-out` wrote, it follows other costs.
"""

import numpy as np


def waves(x, start, width, factor, shift, turns):
    x = (x - start) / width
    angles = ((factor * x + shift)[:, :, None] * turns).reshape(len(x), -1)
    return np.concatenate([x, np.sin(angles), np.cos(angles)], 1)


STEPS = {
    "scale": lambda x, middle, half, limit: np.clip((x - middle) / half, -limit, limit),
    "waves": waves,
    "dense": lambda x, weight, bias: x @ weight + bias,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "each": lambda x: x[:, None],  # the next layer has a bias for each action
    "split": lambda x, actions: x.reshape(len(x), int(actions), -1),
    "unit": lambda x: x / np.sqrt(np.maximum((x * x).sum(-1, keepdims=True), 1e-24)),
    "log_softmax": lambda x: x - np.logaddexp.reduce(x, axis=-1, keepdims=True),
}


class Controller:
    def __init__(self, path):
        data = dict(np.load(path))
        steps = [step.split() for step in data["steps"]]
        self.steps = [(STEPS[name], [data[array] for array in arrays]) for name, *arrays in steps]
        self.weights = {name: data[name] for name in ("w_r", "w_c", "lam") if name in data}
        self.policy, self.about = str(data["policy"]), str(data["about"])  # a hash; JSON about the policy

    def values(self, obs):
        """Q [n, A] and K [n, A, J] of observations [n, …]; K is None if the policy does not have it."""
        x = np.asarray(obs, np.float32)
        for step, arrays in self.steps:
            x = step(x, *arrays)
        return (x @ self.weights["w_r"], x @ self.weights["w_c"].T) if self.weights else (x, None)

    def act(self, obs):
        """The best action for one observation, or actions [n] for many."""
        q, k = self.values(np.atleast_2d(obs))
        best = np.argmax(q if k is None else q - k @ self.weights["lam"], -1)
        return best if np.ndim(obs) > 1 else int(best[0])

    def update(self, new):
        """Follow other costs."""
        if not self.weights or new["policy"] != self.policy:
            raise ValueError("these weights are for another policy; export that policy again")
        self.weights |= {name: np.array(new[name], np.float32) for name in ("w_c", "lam")}
