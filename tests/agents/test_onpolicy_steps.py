from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from safedsr.agents.onpolicy.config import OnPolicyConfig
from safedsr.agents.onpolicy.problem import Batch, Pressure, Problem, mixed
from safedsr.agents.onpolicy.steps import (
    Geometry,
    constrained,
    cpo_direction,
    natural,
    pcpo_direction,
    projected,
    trust_region,
)
from safedsr.agents.onpolicy.surrogates import clipped, plain

DELTA = 0.01
CONFIG = OnPolicyConfig(target_kl=DELTA, cpo_guard=True, cpo_sign="climb", pcpo_first_term="x", clip=0.2)


def curvature(seed=0):
    root = np.random.default_rng(seed).normal(size=(2, 2))
    return root @ root.T + 0.3 * np.eye(2)


def make_geometry(h, g, b, c):
    x, p = np.linalg.solve(h, g), np.linalg.solve(h, b)
    numbers = (x, p, h @ x, x @ h @ x, g @ p, b @ p, b @ b <= 1e-6, c)
    return Geometry(*(jnp.asarray(n, bool if n is numbers[6] else jnp.float32) for n in numbers))


def trust_region_points(h):
    """Many points s with ½·sᵀHs ≤ δ, the rim among them."""
    angle, radius = np.meshgrid(np.linspace(0, 2 * np.pi, 1441), np.linspace(0, 1, 201))
    disc = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1).reshape(-1, 2)
    return np.sqrt(2 * DELTA) * disc @ np.linalg.inv(np.linalg.cholesky(h))


def best(h, g, b, c):
    points = trust_region_points(h)
    inside = points[c + points @ b <= 0]
    return inside[np.argmax(inside @ g)] if len(inside) else points[np.argmin(points @ b)]


def scaled_cost(h, b, level):
    """The c at which the limit's border lies `level` radii away from where we are."""
    return level * np.sqrt(2 * DELTA * (b @ np.linalg.solve(h, b)))


UP, ASIDE, DOWN = np.array([1.0, 0.4]), np.array([-0.3, 1.0]), np.array([-1.0, -0.6])  # cost gradients, for g below
GAIN = np.array([1.0, 0.2])


@pytest.mark.parametrize(
    ("case", "level", "b"),
    [
        (3, -1.5, UP),
        (3, -1.5, DOWN),
        (2, -0.5, UP),
        (2, -0.1, UP),
        (2, -0.5, ASIDE),
        (2, -0.5, DOWN),
        (1, 0.1, UP),
        (1, 0.6, UP),
        (1, 0.6, ASIDE),
        (1, 0.3, DOWN),
        (1, 0.9, DOWN),
        (0, 1.5, UP),
        (0, 1.5, DOWN),
        (4, -0.5, 1e-4 * UP),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_cpo_takes_the_best_feasible_step(case, level, b, seed):
    h = curvature(seed)
    c = scaled_cost(h, b, level) if case != 4 else -1.0
    at = make_geometry(h, GAIN, b, c)
    step, found = cpo_direction(at, CONFIG)
    step, want = np.asarray(step, float), best(h, GAIN, b, c)
    radius = np.sqrt(2 * DELTA)
    assert found == case
    assert 0.5 * step @ h @ step <= DELTA * 1.01
    if case == 0:
        np.testing.assert_allclose(step @ b, want @ b, rtol=0.01)
        return
    tolerance = 0.02 * radius
    assert c + step @ b <= tolerance * np.sqrt(float(at.s))
    np.testing.assert_allclose(step @ GAIN, want @ GAIN, atol=tolerance * np.sqrt(float(at.q)))


@pytest.mark.parametrize(("case", "level"), [(0, 1.5), (3, -1.5)])
def test_cpo_as_omnisafe_has_it_is_best_where_the_limit_does_not_cut(case, level):
    h = curvature()
    c = scaled_cost(h, UP, level)
    step, found = cpo_direction(make_geometry(h, GAIN, UP, c), replace(CONFIG, cpo_guard=False, cpo_sign="descend"))
    want = best(h, GAIN, UP, c)
    assert found == case
    np.testing.assert_allclose(step, want, atol=0.02 * float(np.linalg.norm(want)))


def test_cpo_without_guard_may_step_backwards():
    h = curvature()
    at = make_geometry(h, GAIN, DOWN, scaled_cost(h, DOWN, -0.5))
    guarded, unguarded = (cpo_direction(at, replace(CONFIG, cpo_guard=guard))[0] for guard in (True, False))
    assert GAIN @ np.asarray(guarded) > 0 > GAIN @ np.asarray(unguarded)


@pytest.mark.parametrize("b", [UP, ASIDE, DOWN])
@pytest.mark.parametrize("level", [-1.5, -0.3, 0.3, 1.5])
def test_pcpo_projects_onto_the_limit(b, level):
    h = curvature()
    c = scaled_cost(h, b, level)
    at = make_geometry(h, GAIN, b, c)
    free = np.sqrt(2 * DELTA / float(at.q)) * np.linalg.solve(h, GAIN)
    limit = {"type": "ineq", "fun": lambda s: -(b @ s + c), "jac": lambda s: -b}
    want = minimize(
        lambda s: 0.5 * (s - free) @ h @ (s - free),
        np.zeros(2),
        jac=lambda s: h @ (s - free),
        constraints=[limit],
        method="SLSQP",
        options={"ftol": 1e-12},
    )
    assert want.success
    np.testing.assert_allclose(pcpo_direction(at, CONFIG), want.x, rtol=1e-3, atol=1e-4)


def test_pcpo_as_omnisafe_has_it_climbs_the_plain_gradient():
    at = make_geometry(curvature(), GAIN, UP, -9.0)
    step = pcpo_direction(at, replace(CONFIG, pcpo_first_term="Hx"))
    np.testing.assert_allclose(step, np.sqrt(2 * DELTA / float(at.q)) * GAIN, rtol=1e-4)


def make_batch(reward_advantage, cost_advantage):
    rows = len(reward_advantage)
    nothing = jnp.zeros(rows)
    reward_advantage, cost_advantage = jnp.array(reward_advantage), jnp.array(cost_advantage)
    return Batch(jnp.zeros((rows, 2)), nothing, nothing, reward_advantage, cost_advantage, nothing, cost_advantage)


RATIO = jnp.array([0.5, 1.0, 1.5])
BATCH = make_batch([1.0, -2.0, 4.0], [[1.0], [2.0], [-1.0]])
ALL = jnp.ones(3)


def pressure(share=0.0, hinge=0.0, excess=0.0):
    return Pressure(jnp.array([share]), jnp.float32(hinge), jnp.array([excess]))


def test_mixed_by_hand_for_two_costs():
    batch = make_batch([1.0, -2.0], [[1.0, 2.0], [3.0, -1.0]])
    lam = np.array([0.5, 1.5])
    want = [(1 - 0.5 * 1 - 1.5 * 2) / 3, (-2 - 0.5 * 3 + 1.5 * 1) / 3]
    np.testing.assert_allclose(mixed(batch, jnp.asarray(lam / (1 + lam.sum()))), want, rtol=1e-5)


def test_plain_surrogate_by_hand():
    found = plain(RATIO, BATCH, pressure(0.25), ALL, CONFIG)  # advantages 0.5, -2, 3.25
    np.testing.assert_allclose(found, -(0.5 * 0.5 - 2 + 1.5 * 3.25) / 3, rtol=1e-5)


@pytest.mark.parametrize(
    ("sign", "want"),
    [
        (1, -(0.5 - 2 + 1.2 * 4) / 3),  # a good action counts up to 1.2
        (-1, -(-0.8 + 2 - 1.5 * 4) / 3),  # a bad one down to 0.8, and all that is above
    ],
)
def test_clip_by_hand(sign, want):
    batch = BATCH._replace(reward_advantage=sign * BATCH.reward_advantage)
    np.testing.assert_allclose(clipped(RATIO, batch, pressure(), ALL, CONFIG), want, rtol=1e-5)


def test_rows_without_weight_do_not_count():
    found = clipped(RATIO, BATCH, pressure(hinge=20, excess=1), jnp.array([1.0, 1.0, 0.0]), CONFIG)
    np.testing.assert_allclose(found, -(0.5 - 2) / 2 + 20 * (2.5 / 2 + 1), rtol=1e-5)


@pytest.mark.parametrize(
    ("excess", "clip", "want"),
    [
        (1.0, False, 20 * ((0.5 + 2 - 1.5) / 3 + 1)),
        (1.0, True, 20 * ((0.8 + 2 - 1.2) / 3 + 1)),
        (-1.0, False, 0.0),
        (-1.0, True, 0.0),
        (-0.3, False, 20 * (1 / 3 - 0.3)),
    ],
)
def test_hinge_by_hand(excess, clip, want):
    config = replace(CONFIG, hinge_clip=clip)
    without = clipped(RATIO, BATCH, pressure(), ALL, config)
    found = clipped(RATIO, BATCH, pressure(hinge=20, excess=excess), ALL, config)
    np.testing.assert_allclose(found - without, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("step", [natural, trust_region, constrained, projected])
@pytest.mark.parametrize("excess", [-1.0, 0.0, 1.0])
def test_where_there_is_but_one_action_nothing_moves(step, excess):
    """Its probability is 1 whatever the parameters: no gain, no cost, no divergence, and no division by them."""
    problem = Problem(
        gain=lambda theta: 0.0 * theta.sum(),
        cost=lambda theta: 0.0 * theta.sum()[None],
        log_probs=lambda theta: 0.0 * theta[:, None],
        kl=lambda theta: 0.0 * (theta**2).sum(),
        excess=jnp.array([excess]),
    )
    theta = jnp.array([0.3, -0.2])
    np.testing.assert_array_equal(step(theta, problem, OnPolicyConfig()), theta)
