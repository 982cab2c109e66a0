# pyright: reportMissingImports=false
# PyTorch comes with the extra "bench" only.
"""The natural-gradient steps of TRPO and CPO in PyTorch, by double differentiation; see `torch_onpolicy.py`."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax
from torch.nn.utils import parameters_to_vector, vector_to_parameters

TARGET_KL, DAMPING, CG_STEPS, SHRINK = 0.01, 0.1, 15, 0.8


class Batch(NamedTuple):
    """One epoch of samples."""

    obs: Tensor  # [N, 2], normalised
    action: Tensor  # [N]
    log_prob: Tensor  # [N], of the action when it was taken
    reward_gain: Tensor  # [N], advantages: standardised
    cost_gain: Tensor  # [N], centred
    reward_goal: Tensor  # [N], what the critics learn
    cost_goal: Tensor  # [N]


def policy_terms(actor: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Log-probabilities of all actions [N, A] (detached), and ratios of the actions taken [N]."""
    chances = log_softmax(actor(batch.obs), 1)
    ratio = (chances.gather(1, batch.action[:, None])[:, 0] - batch.log_prob).exp()
    return chances.detach(), ratio


def divergence(actor: nn.Module, batch: Batch, before: Tensor) -> Tensor:
    """Mean KL(before ‖ now) over the samples."""
    now = log_softmax(actor(batch.obs), 1)
    return (before.exp() * (before - now)).sum(1).mean()


def gradient(actor: nn.Module, value: Tensor) -> Tensor:
    """∇ of a number in the actor's parameters, as one vector; the graph behind it is kept."""
    return parameters_to_vector(torch.autograd.grad(value, list(actor.parameters()), retain_graph=True))


def fisher(actor: nn.Module, batch: Batch, before: Tensor) -> Callable[[Tensor], Tensor]:
    """v ↦ (F + damping) v."""
    moved = divergence(actor, batch, before)
    slope = parameters_to_vector(torch.autograd.grad(moved, list(actor.parameters()), create_graph=True))

    def product(v: Tensor) -> Tensor:
        return gradient(actor, slope @ v) + DAMPING * v

    return product


def conjugate_gradient(product: Callable[[Tensor], Tensor], b: Tensor) -> Tensor:
    """x with F x ≈ b."""
    x, residual = torch.zeros_like(b), b.clone()
    direction, size = b.clone(), b @ b
    for _ in range(CG_STEPS):
        image = product(direction)
        length = size / (direction @ image + 1e-6)
        x, residual = x + length * direction, residual - length * image
        new = residual @ residual
        if new.sqrt() < 1e-10:
            break
        direction, size = residual + new / (size + 1e-6) * direction, new
    return x


def line_search(actor: nn.Module, step: Tensor, tries: int, accept: Callable[[], bool]) -> None:
    """The first of `tries` shrinking steps that is accepted, or none."""
    start = parameters_to_vector(actor.parameters()).detach().clone()
    for attempt in range(tries):
        vector_to_parameters(start + SHRINK**attempt * step, actor.parameters())
        with torch.no_grad():
            if accept():
                return
    vector_to_parameters(start, actor.parameters())


def trust_region_step(actor: nn.Module, batch: Batch, gain: Tensor) -> None:
    """TRPO's step."""
    before, ratio = policy_terms(actor, batch)
    surrogate = (ratio * gain).mean()
    product = fisher(actor, batch, before)
    x = conjugate_gradient(product, gradient(actor, surrogate))
    step = torch.sqrt(2 * TARGET_KL / (x @ product(x) + 1e-8)) * x

    def accept() -> bool:
        now = (policy_terms(actor, batch)[1] * gain).mean()
        return bool(now.isfinite() and now >= surrogate and divergence(actor, batch, before) <= TARGET_KL)

    line_search(actor, step, 15, accept)


def constrained_step(actor: nn.Module, batch: Batch, excess: float) -> None:
    """CPO's step; `excess` is cost minus budget, in episode units as OmniSafe has it."""
    before, ratio = policy_terms(actor, batch)
    surrogates = [(ratio * gain).mean() for gain in (batch.reward_gain, batch.cost_gain)]
    g, b = (gradient(actor, surrogate) for surrogate in surrogates)
    product = fisher(actor, batch, before)
    x, p = conjugate_gradient(product, g), conjugate_gradient(product, b)
    q, r, s = float(x @ product(x)), float(g @ p), float(b @ p)
    case, step = constrained_direction(float(b @ b), x, p, (q, r, s), excess)

    def accept() -> bool:
        ratio = policy_terms(actor, batch)[1]
        reward, cost = ((ratio * gain).mean() for gain in (batch.reward_gain, batch.cost_gain))
        worse = case > 1 and reward < surrogates[0]
        dearer = cost - surrogates[1] > max(-excess, 0.0)
        return bool(not worse and not dearer and divergence(actor, batch, before) <= TARGET_KL)

    line_search(actor, step, 20, accept)


def constrained_direction(
    slope: float, x: Tensor, p: Tensor, products: tuple[float, float, float], excess: float
) -> tuple[int, Tensor]:
    """Which of CPO's cases holds, and its full step."""
    q, r, s = products
    a, room = q - r * r / (s + 1e-8), 2 * TARGET_KL - excess * excess / (s + 1e-8)
    if excess < 0 and (slope <= 1e-6 or room < 0):
        return (4 if slope <= 1e-6 else 3), math.sqrt(2 * TARGET_KL / (q + 1e-8)) * x
    if room < 0:
        return 0, -math.sqrt(2 * TARGET_KL / (s + 1e-8)) * p
    border = r / (excess + 1e-8)
    low, high = (math.sqrt(max(a, 0.0) / (room + 1e-12)), math.sqrt(q / (2 * TARGET_KL)))
    if excess < 0:
        first, second = min(low, border), max(high, border)
    else:
        first, second = max(low, border), min(high, border)
    value_first = -0.5 * (a / (first + 1e-8) + room * first) - r * excess / (s + 1e-8)
    value_second = -0.5 * (q / (second + 1e-8) + 2 * TARGET_KL * second)
    lam = first if value_first >= value_second else second
    nu = max(0.0, lam * excess - r) / (s + 1e-8)
    return (2 if excess < 0 else 1), (x - nu * p) / (lam + 1e-8)
