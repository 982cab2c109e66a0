"""Compiled programs are kept in a folder of the user's: the second training of its kind starts without compiling.

The folder is `$XDG_CACHE_HOME/safedsr/compiled`, by default `~/.cache/safedsr/compiled`; it may be removed at any time.
JAX_COMPILATION_CACHE_DIR, or a folder that JAX is configured with already, is used instead, and
JAX_ENABLE_COMPILATION_CACHE=0 switches it off. JAX is not imported here, only told.
"""

import os
import sys
from pathlib import Path

LEAST_SECONDS = 0.2  # what compiles faster than this is not worth a file


def keep_compiled() -> None:
    """Let JAX keep what it compiles; where the folder cannot be written everything goes on without it."""
    jax = sys.modules.get("jax")
    if os.environ.get("JAX_COMPILATION_CACHE_DIR") or (jax and jax.config.jax_compilation_cache_dir):
        return
    folder = cache_folder()
    if not _writable(folder):
        return
    settings = {"jax_compilation_cache_dir": str(folder), "jax_persistent_cache_min_compile_time_secs": LEAST_SECONDS}
    for name, value in settings.items():
        if jax:
            jax.config.update(name, value)
        else:
            os.environ.setdefault(name.upper(), str(value))


def cache_folder() -> Path:
    """Where compiled programs are kept."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "safedsr" / "compiled"


def _writable(folder: Path) -> bool:
    """Whether a folder can be written to, or made; nothing is made yet."""
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
    except (OSError, StopIteration):
        return False
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
