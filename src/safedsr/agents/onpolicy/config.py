"""Settings of the on-policy baselines: OmniSafe's defaults, each departure from them a setting. No JAX here."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from safedsr.validation import check_fields, require


@dataclass(frozen=True)
class OnPolicyConfig:
    """What the baselines share; a row of the table changes what differs."""

    steps_per_epoch: int = 20_000
    """Environment steps between updates."""
    gamma: float = 0.99
    """Discount factor, of costs too."""
    gae_lambda: float = 0.95
    """λ of the advantage estimates."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of actor and critics."""
    start: Literal["torch", "jax"] = "torch"
    """Who draws the first networks: PyTorch's generator for this seed, as in OmniSafe, or JAX's."""
    action_order: str = "udlr"
    """What the outputs of PyTorch's first actor stand for: up, down, left, right in some order."""
    actor_lr: float = 3e-4
    """Adam's step size for the actor, where it climbs by gradient."""
    critic_lr: float = 3e-4
    """Adam's step size for the critics."""
    decay_steps: int = 500_000
    """Environment steps over which `actor_lr` falls to 0, at least those of the run; 0 keeps it."""
    batch_size: int = 64
    """Samples of a minibatch."""
    update_iters: int = 40
    """Passes over the epoch's samples."""
    clip: float = 0.2
    """Clipping of the probability ratio."""
    target_kl: float = 0.02
    """KL divergence at which passes stop, or that a step may take."""
    kl_reduce: Literal["sum", "mean"] = "sum"
    """How the divergence is taken over samples when passes stop; OmniSafe's discrete branch sums."""
    critic_l2: float = 0.001
    """Weight of the sum of squares of all critic parameters."""
    max_grad_norm: float = 40.0
    """Longest gradient."""
    normalize_obs: bool = True
    """Observations in units of their running deviation."""
    normalize_reward: bool = False
    """Rewards likewise, for the learner only."""
    normalize_cost: bool = False
    """Costs likewise, for the learner only."""
    cost_scale: float = 1.0
    """Factor on the costs that the learner and its controller see; 2 seems to be what the paper's tables show."""
    window: int = 50
    """Finished episodes whose mean cost is J_C."""
    cg_iters: int = 15
    """Iterations of the conjugate gradients."""
    damping: float = 0.1
    """Added to the Fisher matrix."""
    search_tries: int = 15
    """Most tries of the line search."""
    search_factor: float = 0.8
    """Shrinkage between them."""
    penalty_start: int = 0
    """Environment step from which the multiplier is tuned."""
    lam_start: float = 0.001
    """First multiplier."""
    lam_lr: float = 0.035
    """Adam's step size for the multiplier."""
    pid_kp: float = 0.1
    """Proportional gain."""
    pid_ki: float = 0.01
    """Integral gain."""
    pid_kd: float = 0.01
    """Derivative gain."""
    pid_smooth: float = 0.95
    """Share of the old value in the smoothed error and cost."""
    pid_delay: int = 10
    """Updates between the two costs of the derivative."""
    barrier: float = 0.01
    """IPO: κ of the barrier."""
    barrier_max: float = 1.0
    """IPO: largest weight, and the weight when the budget is broken."""
    hinge: float = 20.0
    """P3O: κ of the penalty."""
    hinge_clip: bool = False
    """P3O: clip the ratio in the cost term too, as its paper does."""
    distance: float = 2.0
    """OnCRPO: excess over the budget from which it descends the cost."""
    pcpo_first_term: Literal["Hx", "x"] = "Hx"
    """PCPO: OmniSafe's first term is F·x; the projection's is x."""
    cpo_guard: bool = False
    """CPO: pass over the interval of its λ that is empty, instead of a λ below 0."""
    cpo_sign: Literal["descend", "climb"] = "descend"
    """CPO: which way its formulas take the gradient to point; it climbs, and OmniSafe's are for one that descends."""

    @property
    def period(self) -> int:
        """Environment steps after which the loop repeats itself."""
        return self.steps_per_epoch

    @property
    def aim(self) -> tuple[float, ...] | None:
        """The controllers steer to the budget."""
        return None

    def check_steps(self, steps: int) -> None:
        """Raise if a run of that many steps would end with a learning rate of 0."""
        enough = not self.decay_steps or steps <= self.decay_steps
        advice = (
            f"the run has {steps} steps, and the learning rate is 0 after decay_steps: give {steps}, or 0 to keep it"
        )
        require(enough, "decay_steps", self.decay_steps, advice)

    def __post_init__(self) -> None:
        check_fields(self)
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

PRESETS: dict[str, dict[str, Any]] = {
    "omnisafe": {},
    "repaired": {
        "kl_reduce": "mean",
        "pcpo_first_term": "x",
        "hinge_clip": True,
        "cpo_guard": True,
        "cpo_sign": "climb",
    },
    "paper": {"action_order": "urdl"},
}
