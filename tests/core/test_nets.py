import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.stats import kstest

from safedsr.core.nets import Mlp, descend, inverse_length, mean_square, pair, slopes, weight_matrix


def assert_uniform(values, bound):
    """Spread evenly over ± bound, as PyTorch's linear layers start."""
    values = np.ravel(values)
    assert np.abs(values).max() <= bound
    assert kstest(values, "uniform", (-bound, 2 * bound)).pvalue > 0.01


@pytest.mark.parametrize("index", [0, 1])
def test_layers_start_as_pytorchs_do(index):
    layer = Mlp((25, 400, 300), key=jax.random.key(0)).layers[index]
    bound = layer.weight.shape[1] ** -0.5
    assert layer.weight.shape == [(400, 25), (300, 400)][index]
    assert_uniform(layer.weight, bound)
    assert_uniform(layer.bias, bound)


def test_weights_without_bias_start_alike():
    assert_uniform(weight_matrix((3, 400), key=jax.random.key(1)), 400**-0.5)
    assert_uniform(weight_matrix((900,), key=jax.random.key(2)), 900**-0.5)
    assert weight_matrix((0, 4), key=jax.random.key(0)).shape == (0, 4)


def test_layers_do_not_start_alike():
    first, second = Mlp((9, 9, 9), key=jax.random.key(0)).layers
    assert not np.isin(first.weight, second.weight).any()


def test_an_mlp_by_hand():
    net = Mlp((2, 2, 1), key=jax.random.key(0))
    weights = [jnp.array([[1.0, 2.0], [-1.0, 1.0]]), jnp.array([0.5, -1.0]), jnp.array([[3.0, 5.0]]), jnp.array([0.25])]
    net = eqx.tree_at(lambda n: [leaf for x in n.layers for leaf in (x.weight, x.bias)], net, weights)
    x = jnp.array([1.0, 1.0])  # first layer: 3.5 and -1, of which ReLU leaves 3.5 and 0
    np.testing.assert_allclose(net.hidden(x), [3.5, 0.0])
    np.testing.assert_allclose(net(x), [10.75])  # 3 · 3.5 + 0.25: no ReLU at the end
    np.testing.assert_allclose(net(-x), [0.25])  # -2.5 and -1 leave nothing but the bias


def unit(x):
    return x * inverse_length(x)


def test_unit_length():
    np.testing.assert_allclose(unit(jnp.array([3.0, -4.0])), [0.6, -0.8], rtol=1e-6)
    np.testing.assert_allclose(unit(jnp.array([0.0, 2e-8])), [0.0, 1.0], rtol=1e-6)


def test_unit_of_nothing_is_finite_and_so_is_its_slope():
    np.testing.assert_array_equal(unit(jnp.zeros(3)), np.zeros(3))
    assert np.isfinite(jax.jacobian(unit)(jnp.zeros(3))).all()


def test_pair_of_observation_and_action():
    np.testing.assert_allclose(pair(jnp.array([0.25, 0.75]), jnp.int32(2), 4), [0.25, 0.75, 0, 0, 1, 0])


def test_mean_square():
    assert mean_square(jnp.array([1.0, -2.0, 4.0])) == 7.0
    assert mean_square(jnp.zeros(0)) == 0.0
    assert jax.grad(mean_square)(jnp.zeros(0)).shape == (0,)


def test_descend_goes_down_by_the_optimisers_step():
    sgd = optax.sgd(0.5)
    params = {"w": jnp.array([1.0, 2.0])}
    moved, _ = descend(sgd, {"w": jnp.array([4.0, -2.0])}, params, sgd.init(params))
    np.testing.assert_allclose(moved["w"], [-1.0, 3.0])


def test_slopes_are_what_jax_finds():
    net = Mlp((3, 8, 5, 2), key=jax.random.key(0))
    x, goal = jax.random.normal(jax.random.key(1), (10, 3)), jax.random.normal(jax.random.key(2), (10, 2))

    def loss(net):
        return ((jax.vmap(net)(x) - goal) ** 2).sum() / 2

    inputs = [x]
    for layer in net.layers[:-1]:
        inputs.append(jax.nn.relu(jax.vmap(layer)(inputs[-1])))
    found, expected = slopes(net, inputs, jax.vmap(net)(x) - goal), jax.grad(loss)(net)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
