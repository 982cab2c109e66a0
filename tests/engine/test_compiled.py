"""What was compiled is kept where the user keeps such things, unless that was decided otherwise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from safedsr.engine.compiled import cache_folder

COMPILE = """
{before}
from safedsr.engine.compiled import keep_compiled
keep_compiled()
import jax, jax.numpy as jnp
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
print(jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones(8)))
"""


def compile_with(home, before="", **variables):
    """Compile something in a process whose cache lies in `home`; gives the files in ours there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    environment = {**kept, "XDG_CACHE_HOME": str(home), **variables}
    command = [sys.executable, "-W", "error", "-c", COMPILE.format(before=before)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return sorted(path.name for path in (home / "safedsr" / "compiled").glob("*"))


@pytest.mark.parametrize("before", ["", "import jax"])
def test_it_is_kept_in_the_cache_of_the_user(tmp_path, before):
    assert any("lambda" in name for name in compile_with(tmp_path, before))


def test_another_folder_is_respected(tmp_path):
    other = tmp_path / "other"
    assert not compile_with(tmp_path, JAX_COMPILATION_CACHE_DIR=str(other))
    assert any(other.iterdir())
    chosen = tmp_path / "chosen"
    assert not compile_with(tmp_path, f"import jax; jax.config.update('jax_compilation_cache_dir', {str(chosen)!r})")
    assert any(chosen.iterdir())


def test_it_can_be_switched_off(tmp_path):
    assert not compile_with(tmp_path, JAX_ENABLE_COMPILATION_CACHE="0")


def test_a_folder_that_cannot_be_made_is_no_ground_to_fail(tmp_path):
    file = tmp_path / "file"
    file.touch()
    assert not compile_with(file)


def test_where_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "safedsr" / "compiled"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "safedsr" / "compiled"
