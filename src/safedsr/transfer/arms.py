"""The agents of 'safedsr reproduce transfer' by name, and what a run needs of each."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from jax import Array

from safedsr.envs.twins.four_room import Rewards, make_four_room
from safedsr.errors import unknown
from safedsr.transfer import learner, network, traveller
from safedsr.transfer.config import NetworkConfig, TransferConfig
from safedsr.transfer.rooms import rooms_of
from safedsr.transfer.traveller import Report, Tools
from safedsr.types import PyTree

EPISODE = 200  # steps
SAVED_EVERY = 16  # tasks of an agent with a table; the others take longer

TABLES: dict[str, TransferConfig] = {
    "known": TransferConfig(),  # knows rewards, and what each step led to, as SFT-CoP's agents do
    "unknown": TransferConfig(known=False, library=4, refresh=2),  # knows nothing; rewards and costs are observed
    "known-no-library": TransferConfig(library=0),
    "known-no-rehearsal": TransferConfig(rehearse=0),
    "known-no-memory": TransferConfig(remember=False),  # M and the stored policies stay
    "known-no-memory-no-library": TransferConfig(remember=False, library=0),  # only M of the task before stays
    "known-no-foresight": TransferConfig(foresee=False),
    "known-no-settling": TransferConfig(settle=0),  # at ε = 0 it acts by M as it is
}
ARMS: dict[str, TransferConfig | NetworkConfig] = {
    **TABLES,
    "network": NetworkConfig(),  # SafeDSR-plus with its network; knows what "known" knows
}


class Agent(NamedTuple):
    """Functions of the states of all trials."""

    init: Callable[[Array], PyTree]  # trials -> their states before the first task
    task: Callable[[PyTree, Rewards, Rewards], tuple[PyTree, Report]]  # (states, rewards, those of the task before)
    used: Callable[[PyTree], PyTree]  # what has to be saved
    save_every: int  # tasks between two saves


def find_arm(name: str) -> TransferConfig | NetworkConfig:
    """The settings of an agent of ours by name."""
    if name not in ARMS:
        raise unknown("agent", name, ARMS)
    return ARMS[name]


def make_agent(config: TransferConfig | NetworkConfig) -> Agent:
    """The agent with these settings."""
    if isinstance(config, NetworkConfig):
        kit = network.Kit(config, make_four_room(EPISODE))

        def task(lanes: PyTree, now: Rewards, before: Rewards) -> tuple[PyTree, Report]:
            del before  # what it has learnt says what it knows of the task before
            return network.run_trials(lanes, now, kit)

        return Agent(partial(network.init_trials, kit=kit), task, lambda lanes: lanes, save_every=1)
    tools = Tools(config, make_four_room(EPISODE, known=config.known), rooms_of(config.known))
    init, task = (partial(function, tools=tools) for function in (learner.init_trials, learner.run_trials))
    return Agent(init, task, traveller.used, save_every=SAVED_EVERY)
