"""Settings of the on-policy baselines: OmniSafe's defaults, each departure from them a setting. No JAX here."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from safedsr.core.config import check_latest
from safedsr.validation import check_fields, require

BY_GRADIENT = ("pdo", "ppo-lag", "cppo-pid", "ipo", "p3o", "pg", "ppo")  # these use actor_lr and decay_steps
REPAIRABLE = (*BY_GRADIENT, "cpo", "pcpo")  # the preset 'repaired' changes what these learn


@dataclass(frozen=True)
class OnPolicyConfig:
    """Settings that all on-policy baselines share; `DEFAULTS` has the values of each."""

    steps_per_epoch: int = 20_000
    """Environment steps of one epoch; the policy is updated after each epoch."""
    gamma: float = 0.99
    """Discount factor of rewards and costs."""
    gae_lambda: float = 0.95
    """λ of generalised advantage estimation."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of actor and critics."""
    start: Literal["torch", "jax"] = "torch"
    """Random generator of the initial weights: PyTorch's for the same seed, as in OmniSafe, or JAX's."""
    action_order: str = "udlr"
    """Order in which the initial actor's outputs stand for the actions up, down, left and right."""
    actor_lr: float = 3e-4
    """Learning rate of the actor (Adam), for algorithms that update it by gradient steps."""
    critic_lr: float = 3e-4
    """Learning rate of the critics (Adam)."""
    decay_steps: int = 500_000
    """Environment steps over which `actor_lr` decays linearly to 0; 0 keeps it constant. A longer run is refused."""
    batch_size: int = 64
    """Minibatch size."""
    update_iters: int = 40
    """Maximum number of passes over the samples of an epoch."""
    clip: float = 0.2
    """PPO: clipping range of the probability ratio."""
    target_kl: float = 0.02
    """KL divergence at which passes stop early, or the trust region of a step."""
    kl_reduce: Literal["sum", "mean"] = "sum"
    """How the KL divergence of the samples is reduced for early stopping; OmniSafe sums it for discrete actions."""
    critic_l2: float = 0.001
    """Weight of the L2 penalty on all critic parameters."""
    max_grad_norm: float = 40.0
    """Maximum norm of a gradient."""
    normalize_obs: bool = True
    """Normalise observations by their running mean and standard deviation."""
    normalize_reward: bool = False
    """Normalise rewards likewise; recorded returns stay as they are."""
    normalize_cost: bool = False
    """Normalise costs likewise; recorded costs stay as they are."""
    cost_scale: float = 1.0
    """Factor on the costs that the learner and the λ update see."""
    window: int = 50
    """Number of last episodes whose mean cost is J_C."""
    cg_iters: int = 15
    """Iterations of the conjugate gradient method."""
    damping: float = 0.1
    """Damping: multiple of the identity that is added to the Fisher matrix."""
    search_tries: int = 15
    """Maximum number of steps of the line search."""
    search_factor: float = 0.8
    """Factor by which the line search shortens a step."""
    penalty_start: int = 0
    """Environment step from which λ is updated."""
    lam_start: float = 0.001
    """Initial value of λ."""
    lam_lr: float = 0.035
    """Learning rate of λ (Adam)."""
    pid_kp: float = 0.1
    """Proportional gain."""
    pid_ki: float = 0.01
    """Integral gain."""
    pid_kd: float = 0.01
    """Derivative gain."""
    pid_smooth: float = 0.95
    """Smoothing factor: weight of the old value in the smoothed error and cost."""
    pid_delay: int = 10
    """PID: number of updates between the two costs of the derivative term."""
    barrier: float = 0.01
    """IPO: κ of the barrier."""
    barrier_max: float = 1.0
    """IPO: largest weight of the cost, also used when the budget is exceeded."""
    hinge: float = 20.0
    """P3O: κ of the penalty."""
    hinge_clip: bool = False
    """P3O: clip the probability ratio in the cost term too, as in its paper."""
    distance: float = 2.0
    """OnCRPO: tolerance by which J_C may exceed the budget before the cost is minimised."""
    pcpo_first_term: Literal["Hx", "x"] = "Hx"
    """PCPO: first term of the step, F·x as in OmniSafe or x as in the projection."""
    cpo_guard: bool = False
    """CPO: ignore an empty interval of the dual variable, instead of using a negative value."""
    cpo_sign: Literal["descend", "climb"] = "descend"
    """CPO: sign of the reward gradient in its formulas: descend as in OmniSafe, or climb, which is consistent."""

    @property
    def period(self) -> int:
        """Environment steps of one period of the training loop."""
        return self.steps_per_epoch

    @property
    def aim(self) -> tuple[float, ...] | None:
        """None: the target cost of the controllers is the budget."""
        return None

    def check_steps(self, steps: int, algorithm: str) -> None:
        """Raise if the learning rate of the actor would be 0 before the end of a run of that many steps."""
        enough = algorithm not in BY_GRADIENT or not self.decay_steps or steps <= self.decay_steps
        advice = (
            f"after them the learning rate is 0, and the run has {steps} steps: train with --decay-steps {steps}, or 0 "
            "to keep the rate"
        )
        require(enough, "decay_steps", self.decay_steps, advice)

    def __post_init__(self) -> None:
        check_fields(self)
        check_latest(self, "penalty_start", "decay_steps")
        for name in ("gamma", "gae_lambda"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "give a value between 0 and 1")
        for name in (
            "steps_per_epoch",
            "batch_size",
            "update_iters",
            "window",
            "cg_iters",
            "search_tries",
            "pid_delay",
        ):
            require(getattr(self, name) >= 1, name, getattr(self, name), "give at least 1")
        for name in ("actor_lr", "critic_lr", "target_kl", "clip", "max_grad_norm", "cost_scale"):
            require(getattr(self, name) > 0, name, getattr(self, name), "give a value above 0")
        order = self.action_order
        require(sorted(order) == sorted("udlr"), "action_order", order, "give the letters u, d, l and r in some order")
        require(0 < self.search_factor < 1, "search_factor", self.search_factor, "give a value between 0 and 1")
        require(0 <= self.pid_smooth < 1, "pid_smooth", self.pid_smooth, "give a share of at least 0 and below 1")
        most = self.steps_per_epoch
        require(self.batch_size <= most, "batch_size", self.batch_size, f"an epoch has {most} samples")


_BY_GRADIENT = OnPolicyConfig()
_BY_STEP = OnPolicyConfig(critic_lr=1e-3, batch_size=128, update_iters=10, target_kl=0.01)

DEFAULTS = {
    "pdo": replace(_BY_GRADIENT, normalize_reward=True, normalize_cost=True),
    "ppo-lag": _BY_GRADIENT,
    "cppo-pid": _BY_GRADIENT,
    "ipo": replace(_BY_GRADIENT, update_iters=10, normalize_reward=True, normalize_cost=True),
    "p3o": replace(_BY_GRADIENT, update_iters=10),
    "rcpo": _BY_STEP,
    "trpo-lag": _BY_STEP,
    "trpo-pid": _BY_STEP,
    "oncrpo": _BY_STEP,
    "cpo": replace(_BY_STEP, search_tries=20),
    "pcpo": replace(_BY_STEP, search_tries=200),
    "pg": _BY_GRADIENT,
    "ppo": _BY_GRADIENT,
    "npg": _BY_STEP,
    "trpo": _BY_STEP,
}

REPAIRED = "repaired"
PRESETS: dict[str, dict[str, Any]] = {
    "omnisafe": {},
    REPAIRED: {
        "kl_reduce": "mean",
        "pcpo_first_term": "x",
        "hinge_clip": True,
        "cpo_guard": True,
        "cpo_sign": "climb",
    },
    "paper": {"action_order": "urdl"},
}
