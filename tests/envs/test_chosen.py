"""What is taken from a run folder to make its environment again."""

import pytest

from safedsr.envs.chosen import Chosen, completed, make_environment, same_costs
from safedsr.envs.functions import own_function
from safedsr.envs.host import from_gymnasium
from safedsr.envs.registry import environment_to_dict
from safedsr.errors import UserError


def near(obs, action, next_obs, reward, info, low=0.3):
    return abs(next_obs[0]) < low


def far(obs, action, next_obs, reward, info, low=0.3):
    return abs(next_obs[0]) > low


def test_a_name_of_ones_own_is_kept():
    data = environment_to_dict(from_gymnasium("CartPole-v1", name="my cart"))
    assert make_environment(completed(Chosen(), data)).name == "my cart"


def test_without_success_it_is_not_searched_again():
    data = environment_to_dict(from_gymnasium("CartPole-v1"))
    assert completed(Chosen(), data).success == ()


@pytest.mark.parametrize("value", ["evil.Vehicle", {"type": "evil"}, ["fine", "not:fine"]])
def test_an_argument_that_may_name_code_is_not_taken_from_a_folder(value):
    data = {**environment_to_dict(from_gymnasium("CartPole-v1")), "env_args": {"kind": value}}
    with pytest.raises(UserError, match="the environment's argument 'kind', which may name code; give it yourself"):
        completed(Chosen(), data)
    plain = {**data, "env_args": {"sutton_barto_reward": True}}
    assert completed(Chosen(), plain).env_args == {"sutton_barto_reward": True}


def test_cost_functions_are_the_same_by_name():
    one, other = (from_gymnasium("CartPole-v1", cost=own_function(function)) for function in (near, far))
    data = environment_to_dict(one)
    assert same_costs(one, data) and not same_costs(other, data)
