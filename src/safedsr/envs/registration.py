"""Makes `gymnasium.make("safedsr/Grid-v0")` work after `import safedsr`, in any order of the two imports.

Gymnasium is not imported unless the user imports it, because its import takes longer than all of safedsr.
"""

import sys
from importlib.machinery import PathFinder

ENV_ID = "safedsr/Grid-v0"


def register_envs() -> None:
    """Register the grid with Gymnasium."""
    from gymnasium.envs.registration import register, registry

    if ENV_ID not in registry:
        register(id=ENV_ID, entry_point="safedsr.envs.grid.gym:GridEnv")


class _WhenGymnasiumComes:
    """An import hook that registers the grid when Gymnasium is imported, and then removes itself."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "gymnasium":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_then_register(module):
                load(module)
                if cls in sys.meta_path:
                    sys.meta_path.remove(cls)
                register_envs()

            spec.loader.exec_module = load_then_register
        return spec


def register_when_needed() -> None:
    """Register the grid now if Gymnasium is imported already, else when it is imported."""
    if "gymnasium" in sys.modules:
        register_envs()
    elif _WhenGymnasiumComes not in sys.meta_path:
        sys.meta_path.insert(0, _WhenGymnasiumComes)
