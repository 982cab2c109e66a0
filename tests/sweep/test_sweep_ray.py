"""Sweeps on Ray, for real: a cluster on this machine whose node, worker and head are killed in the middle."""

import os
import signal
from pathlib import Path

import pytest
from sweeps import LONG, Seen, begun, same_results, tiny_sweep

from safedsr.cli import main
from safedsr.engine.train import Stopped
from safedsr.errors import Refusal
from safedsr.sweep.base import Where
from safedsr.sweep.executors import make_executor
from safedsr.sweep.finish import saved_step, standing
from safedsr.sweep.run import last_step, run_all
from safedsr.sweep.worker import DONE

pytest.importorskip("ray", reason="Ray is not installed: pip install 'safedsr[ray]'")
pytestmark = [
    pytest.mark.usefixtures("compile_quickly"),
    pytest.mark.filterwarnings("ignore"),  # of Ray
]


class Machines:
    """A Ray cluster of processes on this machine; its head can be killed and started again at the same address."""

    def __init__(self) -> None:
        self._start()
        self.address = str(self.cluster.address)

    def _start(self, **more: object) -> None:
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(True, head_node_args={"num_cpus": 1, "include_dashboard": False, **more})

    def kill_head(self) -> None:
        """Kill all processes of the head with SIGKILL."""
        assert self.cluster.head_node
        self.cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)

    def restart(self) -> None:
        """Start a head at the address of the first."""
        self._start(gcs_server_port=int(self.address.rpartition(":")[2]))


@pytest.fixture(scope="module")
def machines():
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_raylet_death_check_interval_milliseconds", "100")  # workers notice a dead node at once
        found = Machines()
        yield found
        ray.shutdown()
        found.cluster.shutdown()


def run_on_ray(address, planned, out, update=lambda board: None, **where):
    """Run on the cluster, and call `update` again and again meanwhile."""
    executor, seen = make_executor("ray", Where(address=address, **where), out, len(planned)), Seen()
    seen.update = update
    try:
        return run_all(planned, out, executor, seen)
    finally:
        executor.close()


def test_a_node_and_a_worker_die_and_every_run_is_as_if_undisturbed(machines, tmp_path, corridor_map, by_hand):
    planned = begun(tiny_sweep(corridor_map, LONG), tmp_path)
    second, done = machines.cluster.add_node(num_cpus=1), []

    def disturb(board):
        reached = [last_step(tmp_path / one.name) for one in planned]
        if not done and min(reached) >= 100:
            machines.cluster.remove_node(second, allow_graceful=False)
            done.append("node")
        elif len(done) == 1 and max(reached) >= 400 and ray_workers():
            for pid in ray_workers():
                os.kill(pid, signal.SIGKILL)
            done.append("worker")

    outcomes = run_on_ray(machines.address, planned, tmp_path, disturb)
    assert {outcome.state for outcome in outcomes.values()} == {DONE} and done == ["node", "worker"]
    for one in planned:
        assert same_results(tmp_path / one.name, by_hand[one.settings["learning_rate"]])


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


@pytest.mark.slow
def test_after_ctrl_c_and_after_the_death_of_the_head_the_same_command_continues(
    machines, tmp_path, corridor_map, by_hand, monkeypatch
):
    (planned,) = begun(tiny_sweep(corridor_map, LONG, vary={"learning_rate": [0.001]}), tmp_path)
    folder = tmp_path / planned.name

    def ctrl_c(board):
        if last_step(folder) >= 100:
            raise KeyboardInterrupt

    with pytest.raises(Stopped, match="0 of 1 runs are done; all is saved, the same command continues"):
        run_on_ray(machines.address, [planned], tmp_path, ctrl_c)
    stopped = saved_step(folder)
    assert 100 <= stopped == last_step(folder) < LONG["steps"]

    monkeypatch.setattr("safedsr.sweep.on_ray.SILENCE", 0.5)
    killed = []

    def kill_head(board):
        if not killed and last_step(folder) >= stopped + 100:
            machines.kill_head()
            killed.append(True)

    with pytest.raises(Refusal, match="no longer answers"):
        run_on_ray(machines.address, [planned], tmp_path, kill_head)
    assert stopped < saved_step(folder) and standing(planned.job, folder) == "begun"

    machines.restart()
    outcomes = run_on_ray(machines.address, [planned], tmp_path)
    assert outcomes[planned.name].state == DONE
    assert same_results(tmp_path / planned.name, by_hand[0.001])


def test_without_a_shared_path_finished_runs_are_sent_back(machines, tmp_path, corridor_map):
    (planned,) = begun(tiny_sweep(corridor_map, vary={"learning_rate": [0.001]}), tmp_path)
    outcomes = run_on_ray(machines.address, [planned], tmp_path, shared=False)
    assert [outcome.state for outcome in outcomes.values()] == [DONE]
    folder = tmp_path / planned.name
    assert (folder / "policy.safetensors").exists() and not (folder / "checkpoint").exists()
    assert standing(planned.job, folder) == "done"
    assert not list(tmp_path.glob(".incoming*"))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("nonsense", "address is 'nonsense'; give auto, or HOST:PORT of the head"),
        ("127.0.0.1:1", "no Ray cluster at '127.0.0.1:1': nothing listens there; start one with 'ray start --head'"),
    ],
)
def test_an_address_without_a_cluster_is_told(capsys, tmp_path, corridor_map, address, message):
    begun(tiny_sweep(corridor_map), tmp_path / "out")
    assert main(["sweep", "--out", str(tmp_path / "out"), "--executor", "ray", "--address", address]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
