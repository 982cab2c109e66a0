import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare
from tiny import tiny_job

from safedsr.agent import load, load_all
from safedsr.engine.program import Program
from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.runs.folder import Run
from safedsr.runs.policy import save_policies

pytestmark = pytest.mark.usefixtures("compile_quickly")
AGENTS = ("safedqn", "safedsr")
SEEDS = (7, 2, 9)
OBS = (np.random.default_rng(0).random((6, 2)) * (1.0, 0.2)).astype(np.float32)  # places in the corridor
LOAD = """
import json, sys
from safedsr.agent import load
agent = load(sys.argv[1])
obs = json.loads(sys.argv[2])
found = agent.values(obs)
print(json.dumps({"seed": agent.seed, "actions": agent.act(obs).tolist(), "score": found.score.tolist()}))
"""


def episodes(*ended):
    """A table of episodes (environment, seed, reached, cost)."""
    environment, seed, reached, cost = zip(*ended, strict=True)
    count = len(ended)
    return {
        "environment": np.array(environment),
        "seed": np.array(seed),
        "end_step": np.arange(count),
        "length": np.ones(count, np.int32),
        "return": np.zeros(count, np.float32),
        "cost_0": np.array(cost, np.float32),
        "success": np.array(reached),
    }


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Policies as they start, in two environments: the program, its state and the folder they were saved in."""
    done = {}

    def save(name):
        if name not in done:
            program = Program(tiny_job(name, "SCG", "S.C\n..G", seeds=SEEDS))
            state = program.init()
            # Seeds start alike in every environment; here they differ.
            learner = jax.tree.map(lambda x: x.at[1].multiply(2), state.agent.learner)
            state = state._replace(agent=state.agent._replace(learner=learner))
            # Seed 2 is best in the first environment; in the second 9 and 2 are equally safe and 9 reaches more.
            table = episodes(
                (0, 7, True, 9), (0, 7, True, 9), (0, 2, True, 1), (1, 9, True, 1), (1, 9, True, 9), (1, 2, True, 0)
            )
            folder = tmp_path_factory.mktemp(name)
            run = Run(folder, {}, {"seeds": list(SEEDS)}, table, {})
            save_policies(folder, program.job, program.trainer, state.agent, run)
            done[name] = program, state, folder
        return done[name]

    return save


@pytest.fixture
def copy(saved, tmp_path):
    """A folder that a test may damage."""
    for name in ("policy.json", "policy.safetensors"):
        (tmp_path / name).write_bytes((saved("safedqn")[2] / name).read_bytes())
    return tmp_path


@pytest.mark.parametrize("name", AGENTS)
def test_a_loaded_policy_is_the_one_that_was_trained(name, saved):
    program, state, folder = saved(name)
    for environment in (0, 1):
        for index, seed in enumerate(SEEDS):
            policy = jax.tree.map(lambda x: x[environment, index], program.trainer.policy(state.agent))  # noqa: B023
            expected = program.trainer.values(policy, OBS[0])
            agent = load(folder, seed, environment)
            np.testing.assert_allclose(agent.values(OBS[0]).score, expected.score, rtol=1e-5, atol=1e-6)
            assert agent.act(OBS[0]) == np.argmax(expected.score) and agent.seed == seed
            assert agent.task.title == program.job.tasks[environment].title
    everyone = load_all(folder)
    assert list(everyone) == [(environment, seed) for environment in (0, 1) for seed in SEEDS]
    for (environment, seed), agent in everyone.items():
        np.testing.assert_array_equal(agent.values(OBS).score, load(folder, seed, environment).values(OBS).score)
        assert (agent.task.params.walls.shape, agent.seed) == (((1, 3), (2, 3))[environment], seed)


@pytest.mark.parametrize("name", AGENTS)
def test_the_same_in_a_process_that_never_trained(name, saved):
    folder = saved(name)[2]
    agent = load(folder)
    args = [sys.executable, "-c", LOAD, str(folder), json.dumps(OBS.tolist())]
    found = json.loads(subprocess.run(args, stdout=subprocess.PIPE, check=True).stdout)
    assert found["seed"] == agent.seed and found["actions"] == agent.act(OBS).tolist()
    np.testing.assert_array_equal(np.float32(found["score"]), agent.values(OBS).score)


def test_the_seed_with_most_safe_goals_is_taken(saved):
    folder = saved("safedqn")[2]
    assert load(folder).seed == 2 and load(folder, task=1).seed == 9
    assert load(folder / "policy.json").seed == load(folder / "policy.safetensors").seed == 2


def test_without_an_episode_any_seed_will_do(saved, tmp_path):
    program, state, _ = saved("safedqn")
    run = Run(tmp_path, {}, {"seeds": list(SEEDS)}, {}, {})
    save_policies(tmp_path, program.job, program.trainer, state.agent, run)
    assert load(tmp_path).seed == 7


@pytest.mark.parametrize("name", AGENTS)
def test_one_observation_or_many(name, saved):
    agent = load(saved(name)[2])
    many = agent.values(OBS)
    assert isinstance(agent.act(OBS[0]), int) and agent.act(OBS).shape == (6,)
    for index, obs in enumerate(OBS):
        one = agent.values(obs.tolist())
        assert one.score.shape == (4,)
        np.testing.assert_allclose(one.score, many.score[index], rtol=1e-5, atol=1e-6)
        assert agent.act(obs) == agent.act(OBS)[index]
    for wrong in (np.zeros(3), np.zeros((2, 3)), np.zeros((1, 1, 2)), 0.5):
        with pytest.raises(UserError, match=r"^observations have shape \(.*\); give \[2\] or \[n, 2\]"):
            agent.act(wrong)


def test_the_parts_of_a_value_add_up(saved):
    agent = load(saved("safedsr")[2])
    agent = agent.with_policy(agent.policy._replace(lam=jnp.array([0.7])))
    found = agent.values(OBS)
    assert found.k is not None and found.m is not None
    assert found.q.shape == (6, 4) and found.k.shape == (6, 4, 1) and found.m.shape == (6, 4, 6)
    weights, lam = agent.policy.learner.weights, agent.policy.lam
    np.testing.assert_allclose(found.score, found.q - found.k @ lam, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.q, found.m @ weights.w_r, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.k, found.m @ weights.w_c.T, rtol=1e-5, atol=1e-6)


def test_another_policy_in_the_same_agent(saved):
    agent = load(saved("safedsr")[2])
    steep = agent.with_policy(agent.policy._replace(lam=agent.policy.lam + 3.0))
    found, plain = steep.values(OBS), agent.values(OBS)
    assert plain.k is not None and steep.seed == agent.seed
    np.testing.assert_allclose(found.score, plain.score - 3 * plain.k[..., 0], rtol=1e-4, atol=1e-5)


def test_a_share_of_random_actions(saved):
    agent = load(saved("safedqn")[2])
    many = np.tile(OBS[:1], (4000, 1))
    best = agent.act(OBS[0])
    rng = np.random.default_rng(0)
    assert (agent.act(many) == best).all() and (agent.act(many, 0.0, rng) == best).all()
    assert chisquare(np.bincount(agent.act(many, 1.0, rng), minlength=4)).pvalue > 0.01
    assert (agent.act(many, 0.4, rng) != best).mean() == pytest.approx(0.4 * 0.75, abs=0.03)
    assert {agent.act(OBS[0], 1.0) for _ in range(200)} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seed": 8}, "seed is 8; the run has 7, 2, 9"),
        ({"task": 2}, "task is 2; give a number from 0 to 1"),
        ({"task": -1}, "task is -1; give a number from 0 to 1"),
    ],
)
def test_what_the_run_does_not_have(saved, given, message):
    with pytest.raises(UserError, match=f"^{message}"):
        load(saved("safedqn")[2], **given)


def test_folders_without_a_policy(tmp_path, trained):
    with pytest.raises(UserError, match=r"nowhere holds no policy \(give a run folder\)"):
        load(tmp_path / "nowhere")
    (tmp_path / "manifest.json").write_bytes((trained("safedqn") / "manifest.json").read_bytes())
    with pytest.raises(UserError, match=r"holds no policy \(its training has not finished: continue it with"):
        load(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "{ nonsense",
        "[]",
        "{}",
        *(f'{{"format": {n}}}' for n in (1, 2)),
        *(f'{{"format": {n}, "best": [0]}}' for n in (1, 2)),
    ],
)
def test_damaged_words(copy, content):
    (copy / "policy.json").write_text(content)
    with pytest.raises(UserError, match=r"policy.json"):
        load(copy)


def test_damaged_numbers(copy):
    path = copy / "policy.safetensors"
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[-2] ^= 1
    for content in (whole[:-4], bytes(flipped), b"", b"nonsense"):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"policy.safetensors is damaged"):
            load(copy)
    path.unlink()
    with pytest.raises(UserError, match=r"policy.safetensors is missing"):
        load(copy)


def test_numbers_of_somebody_else(copy):
    storage.write_tensors(copy / "policy.safetensors", {"weight": np.zeros(3)}, {})
    with pytest.raises(UserError, match=r"policy.safetensors was not written by this version of safedsr"):
        load(copy)
    storage.write_tensors(copy / "policy.safetensors", {"weight": np.zeros(3)}, {"safedsr": "2"})
    with pytest.raises(UserError, match=r"does not fit these settings: '.*' is in only one of them"):
        load(copy)


def test_a_newer_format(copy):
    about = storage.read_json(copy / "policy.json")
    storage.write_json(copy / "policy.json", {**about, "format": 3})
    with pytest.raises(UserError, match=r"policy.json has format 3; this version reads 2: upgrade safedsr"):
        load(copy)


def test_a_policy_of_another_shape(copy):
    about = storage.read_json(copy / "policy.json")
    about["job"]["agent"]["hidden"] = [9]
    storage.write_json(copy / "policy.json", about)
    with pytest.raises(UserError, match=r"does not fit these settings: 'learner/layers/0/weight' is float32"):
        load(copy)
