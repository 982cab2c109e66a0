"""The wheel in an empty environment: what a user gets from pip."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TRAIN = ("train", "safedsr-plus", "--layout", "one-room", "--costs", "diamond", "--budget", "5", "--steps", "20000")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The built wheel; without isolation if the build backend is installed, which needs no network."""
    out = tmp_path_factory.mktemp("dist")
    flags = ["--no-isolation"] if _installed("hatchling") else []
    command = [sys.executable, "-m", "build", *flags, "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (found,) = out.glob("safedsr-*.whl")
    assert len(list(out.glob("safedsr-*.tar.gz"))) == 1
    return found


def _installed(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


@pytest.mark.slow
def test_a_wheel_holds_the_package_and_its_data(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for name in (
        "paper/tables.json",
        "runs/pretrained/two-rooms/policy.safetensors",
        "cli/watch.py",
        "studio/page/index.html",
    ):
        assert f"safedsr/{name}" in names
    assert not [name for name in names if name.startswith(("tests/", "results/", "docs/"))]
    assert wheel.stat().st_size < 5_000_000


@pytest.mark.slow
def test_it_trains_in_an_empty_environment(wheel, tmp_path):
    venv.create(tmp_path / "env", with_pip=True)
    bin = tmp_path / "env" / "bin"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command: str) -> str:
        done = subprocess.run(command, env=clean, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(str(bin / "pip"), "install", "--quiet", str(wheel))
    listed = run(str(bin / "pip"), "list", "--format=freeze").lower()
    assert not [
        name for name in ("torch", "tensorboard", "wandb", "pygame", "pyarrow", "pytest") if f"{name}==" in listed
    ]
    assert "safedsr COMMAND" in run(str(bin / "safedsr"), "--help")
    run(str(bin / "safedsr"), *TRAIN, "--out", "run")
    assert "safe goal rate" in run(str(bin / "safedsr"), "evaluate", "run", "--episodes", "50")
    run(str(bin / "safedsr"), "watch", "pretrained:two-rooms", "--out", "film.gif")
    code = "import gymnasium; print(gymnasium.make('safedsr:safedsr/Grid-v0').reset(seed=0)[0].shape)"
    assert run(str(bin / "python"), "-c", code) == "(2,)\n"
