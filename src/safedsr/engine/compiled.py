"""Persistent cache of compiled programs: a second training run of the same kind starts without compiling.

The folder is `$XDG_CACHE_HOME/safedsr/compiled`, by default `~/.cache/safedsr/compiled`; it may be deleted at any time.
If JAX_COMPILATION_CACHE_DIR is set, or JAX is already configured with a folder, that folder is used instead;
JAX_ENABLE_COMPILATION_CACHE=0 switches the cache off. This module configures JAX without importing it.
"""

import os
import sys
from pathlib import Path

LEAST_SECONDS = 0.2  # programs that compile faster than this are not cached


def keep_compiled() -> None:
    """Switch on JAX's compilation cache, unless JAX has one already or the folder is not writable."""
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
    """The folder of the compilation cache."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "safedsr" / "compiled"


def _writable(folder: Path) -> bool:
    """Whether a folder is writable or can be created; nothing is created here."""
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
    except (OSError, StopIteration):
        return False
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
