import jax
import jax.numpy as jnp
import numpy as np
import pytest

from safedsr.agents.onpolicy.baselines import make_baseline
from safedsr.agents.onpolicy.config import OnPolicyConfig
from safedsr.agents.onpolicy.torch_start import numbers, start
from safedsr.core.nets import Mlp
from safedsr.envs.grid.catalog import load_scene
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import make_grid

# Drawn once with PyTorch 2.13 after torch.manual_seed(3): an actor 2-64-64-4 and two critics 2-64-64-1, each layer a
# torch.nn.Linear whose weight went through kaiming_uniform_(a=√5) once more.
ACTOR_LAST = np.array([0.015426456928253174, 0.030112311244010925, 0.025085970759391785], np.float32)
COST_CRITIC_BIAS = np.float32(-0.04513521492481232)


@pytest.mark.parametrize("seed", [0, 1, 5489, 2**32 - 1])
def test_the_twister_is_numpys(seed):
    known = np.random.MT19937()
    known._legacy_seeding(seed)
    np.testing.assert_array_equal(numbers(jnp.uint32(seed), 2000), known.random_raw(2000))


def test_networks_are_pytorchs():
    nets = [Mlp((2, 64, 64, n), key=jax.random.key(0), activation=jnp.tanh) for n in (4, 1, 1)]
    actor, _, critic = start(jnp.uint32(3), nets)
    np.testing.assert_array_equal(actor.layers[-1].weight[0, :3], ACTOR_LAST)
    np.testing.assert_array_equal(critic.layers[-1].bias, [COST_CRITIC_BIAS])


def first_nets(seed, **changes):
    trainer = make_baseline(OnPolicyConfig(**changes), make_grid(GridConfig(), 1), "ppo-lag")
    layout = load_scene("one-room", "diamond").layout
    return trainer.init(jax.random.key(seed), jnp.uint32(seed), layout)[0].learner.nets


def test_a_baseline_starts_with_the_networks_of_its_seed():
    nets = first_nets(3)
    np.testing.assert_array_equal(nets.actor.layers[-1].weight[0, :3], ACTOR_LAST)
    np.testing.assert_array_equal(nets.cost_critics.layers[-1].bias, [[COST_CRITIC_BIAS]])
    other = first_nets(3, start="jax")
    assert not np.allclose(other.actor.layers[0].weight, nets.actor.layers[0].weight)


def test_an_order_of_actions_says_what_the_outputs_stand_for():
    usual, other = first_nets(3).actor.layers, first_nets(3, action_order="urdl").actor.layers
    np.testing.assert_array_equal(usual[0].weight, other[0].weight)
    up, down, left, right = other[-1].bias
    np.testing.assert_array_equal([up, right, down, left], usual[-1].bias)  # "udlr" is the grid's own order
