"""An environment from the choices of a user: a Gymnasium or gymnax id, its arguments, and functions of its steps.

A run folder names the environment and the hashes of the functions. It can be opened without any choice if it needs no
code of the user. Otherwise the user names the code again: a run folder alone never makes safedsr import a module or run
a file.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from safedsr.envs.environment import Environment, check_environment
from safedsr.envs.functions import (
    PARAMETERS,
    StepFunction,
    changed_functions,
    file_hash,
    function_from_json,
    load_from_file,
    load_function,
    name_in,
    parse_assignments,
)
from safedsr.errors import ChangedFunction, UserError

GYMNAX, FILE = "gymnax:", ".py:"


@dataclass(frozen=True)
class Chosen:
    """What is known about an environment; None where nothing was said."""

    env: str | None = None
    env_args: Mapping[str, Any] = field(default_factory=dict)
    reward: tuple[str, ...] | None = None
    cost_entries: tuple[str, ...] = ()
    costs: tuple[StepFunction, ...] | None = None
    success: StepFunction | tuple[()] | None = None  # (): episodes cannot succeed
    time_limit: int | None = None
    name: str | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing was chosen."""
        return self == Chosen()


def chosen_from(
    env: str | None = None,
    env_arg: Sequence[str] = (),
    reward_entries: Sequence[str] = (),
    cost_entries: Sequence[str] = (),
    cost_fn: Sequence[str] = (),
    cost_arg: Sequence[str] = (),
    success_fn: str | None = None,
) -> Chosen:
    """The choices that flags of these names make; files of functions are run. `cost_arg` belongs to the task."""
    del cost_arg
    return Chosen(
        env=env,
        env_args=parse_assignments(env_arg),
        reward=tuple(reward_entries) or None,
        cost_entries=tuple(cost_entries),
        costs=tuple(map(load_function, cost_fn)) or None,
        success=load_function(success_fn) if success_fn else None,
    )


def make_environment(chosen: Chosen, *, costless: bool = False) -> Environment:
    """The environment; `costless` makes it without costs, for algorithms that take none."""
    assert chosen.env
    if costless and (chosen.costs or chosen.cost_entries):
        raise UserError(
            "this algorithm takes no costs; leave out the cost functions, or choose another algorithm (safedsr algos)"
        )
    if chosen.env.startswith(GYMNAX):
        return _gymnax(chosen)
    from safedsr.envs.host import from_gymnasium

    source = load_from_file(chosen.env)[0] if FILE in chosen.env else chosen.env
    if source is not chosen.env and _returns_environment(source):
        own = _own(source, chosen)
        named = {**own.settings, "costs": [], "env_args": dict(chosen.env_args)}
        return _from_file(replace(own, settings=named), chosen.env)
    made = from_gymnasium(
        source,
        reward=chosen.reward,
        cost=() if costless else chosen.costs,
        cost_entries=chosen.cost_entries,
        success=chosen.success,
        env_args=chosen.env_args,
        time_limit=chosen.time_limit,
        name=chosen.name,
    )
    return _from_file(made, chosen.env) if FILE in chosen.env else made


def _returns_environment(function: Any) -> bool:
    """Whether a function says that it returns an `Environment`, which is one in JAX."""
    returned = getattr(function, "__annotations__", {}).get("return")
    return returned is Environment or (isinstance(returned, str) and returned.rpartition(".")[2] == "Environment")


def _own(function: Any, chosen: Chosen) -> Environment:
    """The environment in JAX that a function of the user makes; it has its own costs."""
    if chosen.costs or chosen.cost_entries or chosen.reward or chosen.success or chosen.time_limit is not None:
        raise UserError(
            f"'{chosen.env}' makes an Environment, which has its own reward, costs, success and time limit; leave out "
            "--cost-fn, --cost-entries, --reward-entries, --success-fn and --time-limit"
        )
    try:
        made = function(**chosen.env_args)
    except Exception as error:
        raise UserError(f"'{chosen.env}' raised {type(error).__name__}: {error}") from error
    if not isinstance(made, Environment):
        raise UserError(f"'{chosen.env}' returned {type(made).__name__}; return a safedsr Environment, as it says")
    if made.host:
        raise UserError(
            f"'{chosen.env}' returned an environment of Gymnasium, which runs on the host; let the function return the "
            "gymnasium.Env and name its costs by --cost-fn, or train it in Python with safedsr.train"
        )
    if len(made.cost_names) != made.spec.costs:
        raise UserError(
            f"the environment of '{chosen.env}' has {made.spec.costs} costs and {len(made.cost_names)} cost_names; "
            "give each cost a name: Environment(…, cost_names=…)"
        )
    try:
        check_environment(made, made.params)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"the environment of '{chosen.env}' raised {type(error).__name__} in its first step: {error}; its params "
            "are those of Environment(…, params=…)"
        ) from error
    return made


def _from_file(environment: Environment, text: str) -> Environment:
    """The environment with the name and the hash of the function that makes it."""
    file, _, name = text.rpartition(":")
    about = {"function": name, "source": Path(file).name, "sha256": file_hash(Path(file))}
    return replace(environment, name=name, settings={**environment.settings, "made_by": about})


def _gymnax(chosen: Chosen) -> Environment:
    from safedsr.envs.gymnax import from_gymnax

    if chosen.reward or chosen.cost_entries:
        raise UserError("environments of gymnax have no vector rewards; give the costs by --cost-fn")
    args = dict(chosen.env_args)
    if chosen.time_limit is not None:
        args["max_steps_in_episode"] = chosen.time_limit
    success = chosen.success or None  # without a function, episodes of gymnax cannot succeed
    return from_gymnax(chosen.env[len(GYMNAX) :], args or None, cost=chosen.costs, success=success)  # type: ignore[index]


def completed(chosen: Chosen, data: Mapping[str, Any]) -> Chosen:
    """The choices, completed by what a run folder says about its environment; raises where that would be code."""
    name = data["name"]
    made = data.get("gymnasium", name if name.startswith(GYMNAX) else None)
    if chosen.env is None and data.get("made_by"):
        source = f"{data['made_by']['source']}:{data['made_by']['function']}"
        raise UserError(
            f"this run was trained in '{name}', made by a function that the run folder does not hold; name "
            f"it: --env {source}"
        )
    if chosen.env is None and made is None:
        raise UserError(
            f"this run was trained in '{name}', which a program made; open it in Python with safedsr.load(folder, "
            "environment=…)"
        )
    if chosen.env is None and ":" in made.removeprefix(GYMNAX):
        raise UserError(f"this run was trained in '{name}', a module of yours or of others; name it: --env {made}")
    entries, args = None if _makes_environment(data) else data.get("reward"), data.get("env_args", {})
    if not chosen.env_args and made and not made.startswith(GYMNAX):
        _require_harmless(args)
    found = replace(
        chosen,
        env=chosen.env or made,
        env_args=chosen.env_args or args,
        reward=chosen.reward or (tuple(_entry(*pair) for pair in entries) if entries else None),
        time_limit=chosen.time_limit or (None if _makes_environment(data) else data.get("time_limit")),
        name=None if name.startswith(GYMNAX) or data.get("made_by") or chosen.env else name,
    )
    if found.costs is None and not found.cost_entries:
        found = replace(found, costs=tuple(_known(about, "--cost-fn") for about in data.get("costs", ())))
    if _makes_environment(data):
        return found
    if found.success is None and data.get("success_function"):
        found = replace(found, success=_known(data["success_function"], "--success-fn"))
    elif found.success is None and data.get("success") is False:
        found = replace(found, success=())
    return found


def _makes_environment(data: Mapping[str, Any]) -> bool:
    """Whether the run's environment was made by a function of the user that returns an `Environment`."""
    return bool(data.get("made_by")) and "gymnasium" not in data


def _require_harmless(args: Mapping[str, Any]) -> None:
    """Raise if an argument in a run folder could name code: anything but numbers, short words and lists of them."""

    def fine(value: Any) -> bool:
        if isinstance(value, list):
            return all(map(fine, value))
        return (
            value is None or isinstance(value, int | float) or (isinstance(value, str) and not set(".:/") & set(value))
        )

    for name, value in args.items():
        if not fine(value):
            raise UserError(
                f"the run folder has the environment's argument '{name}', which may name code; give it yourself: "
                f"--env-arg {name}=…, or open the run in Python with safedsr.load(folder, environment=…)"
            )


def _entry(entry: Any, sign: Any) -> str:
    return f"{'-' if sign < 0 else ''}{int(entry)}"


def _known(about: Mapping[str, Any], flag: str) -> StepFunction:
    function = function_from_json(about)
    if function is None:
        name, source = about.get("function"), about.get("source") or "FILE.py"
        if name == "lambda":
            raise UserError(
                "this run used a lambda, which the run folder does not hold; open the run in Python with "
                f"safedsr.load(folder, environment=…), or write the lambda as a function in a file: {flag} FILE.py:NAME"
            )
        raise UserError(
            f"this run used the function '{name}', which the run folder does not hold; name it: {flag} {source}:{name}"
        )
    return function


def same_costs(environment: Environment, data: Mapping[str, Any]) -> bool:
    """Whether the environment has the cost functions that a run folder names; their text may have changed."""
    now, then = (list(settings.get("costs", ())) for settings in (environment.settings, data))
    return len(now) == len(then) and all(map(_same_function, now, then))


def require_same_success(environment: Environment, data: Mapping[str, Any], run: str) -> None:
    """Raise if success means something else than in a run folder, whose episodes would then be counted together."""
    now, then = (settings.get("success_function") for settings in (environment.settings, data))
    if bool(now) != bool(then) or (now and then and not _same_function(now, then)):
        here, there = (f"'{name_in(about)}'" if about else "no function" for about in (now, then))
        raise UserError(
            f"{run} has {there} for the success of an episode, and now it is {here}; its episodes are stored with the "
            "old meaning: give the same function, or train in another folder"
        )


def _same_function(now: Mapping[str, Any], then: Mapping[str, Any]) -> bool:
    files = {about.get("source") for about in (now, then)} - {"", None}  # "": earlier versions did not know it
    others = ("source", "sha256", "file_sha256", PARAMETERS)
    names, before = ({k: v for k, v in about.items() if k not in others} for about in (now, then))
    return len(files) <= 1 and names == before


def warn_of_changes(environment: Environment, data: Mapping[str, Any]) -> None:
    """Warn if a function has the same name as at the training and another text."""
    now, then = (_functions(of) for of in (environment.settings, data))
    for sentence in changed_functions(now, then):
        warnings.warn(sentence, ChangedFunction, stacklevel=2)


def _functions(settings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    single = (settings.get("success_function"), settings.get("made_by") or settings.get("code"))
    return [*settings.get("costs", ()), *(about for about in single if about)]
