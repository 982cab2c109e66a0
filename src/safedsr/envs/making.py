"""Making a Gymnasium environment from its id, with the packages that register ids, or by a function."""

import contextlib
import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import gymnasium

from safedsr.errors import UserError

PACKAGES = ("mo_gymnasium", "minigrid", "highway_env")  # whose environments need no module:Id


def make_gymnasium(
    env: str | Callable[..., gymnasium.Env],
    env_args: dict[str, Any],
    time_limit: int | None,
    title: str,
    **more: Any,
) -> gymnasium.Env:
    """Make the environment; `more` are further arguments, such as its render_mode."""
    try:
        if isinstance(env, str):
            _register(env)
            return gymnasium.make(env, max_episode_steps=time_limit, disable_env_checker=True, **env_args | more)
        made = env(**env_args | more)
    except Exception as error:
        lacking = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
        unfound = isinstance(error, gymnasium.error.UnregisteredEnv) and ":" not in str(env) and lacking
        advice = f"; if it is of {' or '.join(lacking)}: pip install 'safedsr[envs]'" if unfound else ""
        raise UserError(
            f"the environment '{title}' cannot be made: {type(error).__name__}: {' '.join(str(error).split())}{advice}"
        ) from error
    if not isinstance(made, gymnasium.Env):
        raise UserError(f"the function '{title}' returned {type(made).__name__}; return a gymnasium.Env")
    return gymnasium.wrappers.TimeLimit(made, time_limit) if time_limit else made


def _register(env: str) -> None:
    """Import the packages of Farama that register environments when they are imported, if this id is not known yet."""
    if ":" in env or env in gymnasium.registry:
        return
    for package in PACKAGES:
        with contextlib.suppress(ImportError):
            module = importlib.import_module(package)
            if package == "highway_env":
                gymnasium.register_envs(module)
        if env in gymnasium.registry:
            return
