"""Sweeps on Ray, for real: a cluster of two nodes on this machine, one of which is killed in the middle."""

import os
import signal
from pathlib import Path

import pytest
from sweeps import LONG, Seen, begun, same_results, tiny_sweep

from safedsr.errors import UserError
from safedsr.sweep.base import Where
from safedsr.sweep.executors import make_executor
from safedsr.sweep.run import last_step, run_all
from safedsr.sweep.worker import DONE

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.usefixtures("compile_quickly"),
    pytest.mark.filterwarnings("ignore"),  # of Ray
]


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield cluster
    import ray

    ray.shutdown()
    cluster.shutdown()


def test_a_node_and_a_worker_die_and_every_run_is_as_if_undisturbed(cluster, tmp_path, corridor_map, by_hand):
    sweep = tiny_sweep(corridor_map, LONG)
    planned = begun(sweep, tmp_path / "ray")
    second = cluster.add_node(num_cpus=1)
    executor = make_executor(Where("ray", address=cluster.address), tmp_path / "ray", len(planned))
    seen, done = Seen(), []

    def update(board):
        reached = [last_step(tmp_path / "ray" / one.name) for one in planned]
        if not done and min(reached) >= 100:
            cluster.remove_node(second, allow_graceful=False)
            done.append("node")
        elif len(done) == 1 and max(reached) >= 400 and ray_workers():
            for pid in ray_workers():
                os.kill(pid, signal.SIGKILL)
            done.append("worker")

    seen.update = update
    outcomes = run_all(planned, tmp_path / "ray", executor, seen)
    executor.close()
    assert {outcome.state for outcome in outcomes.values()} == {DONE} and done == ["node", "worker"]
    for one in planned:
        assert same_results(tmp_path / "ray" / one.name, by_hand[one.settings["learning_rate"]])


def ray_workers() -> list[int]:
    """The processes of Ray, started by this one, that do a task of safedsr."""
    parents, found = {}, []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if (path / "cmdline").read_bytes().startswith(b"ray::finish_on_node"):
                found.append(int(path.name))
        except OSError:  # it has ended
            continue

    def mine(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and mine(parents[pid]))

    return [pid for pid in found if mine(pid)]


def test_without_a_shared_path_finished_runs_are_sent_back(cluster, tmp_path, corridor_map):
    planned = begun(tiny_sweep(corridor_map, vary={"learning_rate": [0.001]}), tmp_path / "out")
    executor = make_executor(Where("ray", address=cluster.address, shared=False), tmp_path / "out", 1)
    outcomes = run_all(planned, tmp_path / "out", executor, Seen())
    executor.close()
    assert [outcome.state for outcome in outcomes.values()] == [DONE]
    folder = tmp_path / "out" / planned[0].name
    assert (folder / "policy.safetensors").exists() and not (folder / "checkpoint").exists()
    from safedsr.sweep.finish import standing

    assert standing(planned[0].job, folder) == "done"
    assert not list((tmp_path / "out").glob(".incoming*"))


def test_an_address_without_a_cluster_is_told(tmp_path, monkeypatch):
    import ray

    ray.shutdown()

    def nobody(*args, **how):
        raise ConnectionError("no such host")

    monkeypatch.setattr(ray, "init", nobody)
    with pytest.raises(UserError, match="no Ray cluster at 'nowhere:1': no such host; start one with"):
        make_executor(Where("ray", address="nowhere:1"), tmp_path, 1)
