"""Costs and success of a step as functions of it: from info, from a vector reward, or written by the user.

A function takes (observation, action, next observation, reward, info) and returns a number, or a vector for several
costs. Further parameters with a default can be changed later: --cost-arg name=value. A run folder stores the name and
the hash of a user's function, never its text, and only the command line or a program can name a function to load.
"""

import hashlib
import importlib.util
import inspect
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

from safedsr.errors import UserError, unknown

PARAMETERS = "parameters"  # in the description of a function of success
GIVEN = ("obs", "action", "next_obs", "reward", "info")
Args = dict[str, np.ndarray]  # parameters of all functions of an environment, by name


class StepFunction(NamedTuple):
    """A function of a step, its name, its description for config.json, and its parameters with their defaults."""

    name: str
    call: Callable[..., Any]
    about: Mapping[str, Any]
    defaults: Args

    def __call__(self, obs: Any, action: Any, next_obs: Any, reward: Any, info: Any, args: Args) -> Any:
        """The value of a step; each function gets those of the parameters that it has."""
        return self.bound(args)(obs, action, next_obs, reward, info)

    def bound(self, args: Args) -> Callable[..., Any]:
        """The function with its parameters; it takes the five arguments that every function gets."""
        return partial(self.call, **{name: args[name] for name in self.defaults}) if self.defaults else self.call


class NeedsInfo(UserError):
    """A function used `info`, which the replay memory does not hold."""


class NoInfo(dict):
    """Stands for `info` where a stored step gets new costs; it knows whether a function has used it."""

    used = False

    def _refuse(self, *args: object) -> Any:
        self.used = True
        self.require_unused()

    def require_unused(self) -> None:
        """Raise if a function has used it, also if the function has caught this error."""
        if self.used:
            raise NeedsInfo("uses 'info', which the replay memory does not hold")

    __getitem__ = __contains__ = __iter__ = __len__ = get = keys = items = values = _refuse  # type: ignore[assignment]
    __or__ = pop = popitem = setdefault = copy = _refuse  # type: ignore[assignment]


def from_info(key: str) -> StepFunction:
    """The entry `key` of `info`."""
    return StepFunction(key, lambda obs, action, next_obs, reward, info: info[key], {"info": key}, {})


def from_reward(entry: int, sign: float) -> StepFunction:
    """An entry of a vector reward, or minus this entry."""
    name = f"{'-' if sign < 0 else ''}reward[{entry}]"
    about = {"reward": entry, "sign": sign}
    return StepFunction(name, lambda obs, action, next_obs, reward, info: sign * reward[entry], about, {})


def parse_entry(text: str | int) -> tuple[int, float]:
    """Index and sign of an entry of a vector reward: "2", "+2" or "-2" (minus this entry)."""
    word = str(text).strip()
    digits = word.lstrip("+-")
    if not digits.isdecimal() or len(word) - len(digits) > 1:
        raise UserError(f"entry {text!r} of the vector reward; give its number, such as 0, or -2 for minus entry 2")
    return int(digits), -1.0 if word.startswith("-") else 1.0


def own_function(function: Callable[..., Any] | StepFunction, source: str = "") -> StepFunction:
    """A user's function with its parameters and its hash."""
    if isinstance(function, StepFunction):
        return function
    about = described(function, source)
    return StepFunction(about["function"], function, about, _parameters(function, about["function"]))


def described(function: Callable[..., Any], source: str = "") -> dict[str, str]:
    """Name, file and hash of a user's function, for config.json."""
    bare = _bare(function)
    name = getattr(bare, "__name__", type(bare).__name__)
    return {"function": name.strip("<>"), "source": source or _file_name(bare), "sha256": _hash(function)}


def load_function(text: str) -> StepFunction:
    """The function FILE.py:NAME of a step; the file is run, as by Python's import, and has a hash of its own."""
    function, path = load_from_file(text)
    found = own_function(function, path.name)
    return found._replace(about={**found.about, "file_sha256": file_hash(path)})


def file_hash(path: Path) -> str:
    """Hash of the content of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def load_from_file(text: str) -> tuple[Callable[..., Any], Path]:
    """The function FILE.py:NAME, and the file, which is run."""
    file, _, name = text.rpartition(":")
    if not file or not name:
        raise UserError(f"'{text}' names no function; write FILE.py:NAME, for example zones.py:forbidden")
    path = Path(file)
    if not path.is_file():
        raise UserError(f"there is no file {path} (from '{text}'); write FILE.py:NAME")
    module_name = f"safedsr_user_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} is not a Python file; write FILE.py:NAME")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # its dataclasses look themselves up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[module_name]
        raise UserError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
    cloudpickle.register_pickle_by_value(module)  # other processes cannot import it
    functions = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
    if name not in functions:
        raise unknown(f"function in {path}", name, functions)
    return getattr(module, name), path


def function_from_json(about: Mapping[str, Any]) -> StepFunction | None:
    """The function that `about` describes; None for a user's function, which only the user can name."""
    if "info" in about:
        return from_info(about["info"])
    if "reward" in about:
        return from_reward(int(about["reward"]), float(about["sign"]))
    return None


def parameters_in(about: Mapping[str, Any] | None) -> frozenset[str]:
    """The names of the parameters of the function that a description in config.json is of, if it has them."""
    return frozenset((about or {}).get(PARAMETERS, ()))


def with_parameters(function: StepFunction) -> dict[str, Any]:
    """The description of a function with the names of its parameters."""
    return {**function.about, PARAMETERS: sorted(function.defaults)}


def name_in(about: Mapping[str, Any]) -> str:
    """The name of the function that a description in config.json is of."""
    function = function_from_json(about)
    return function.name if function else str(about.get("function"))


def changed_functions(now: Sequence[Mapping[str, Any]], then: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each function that has the same name as at the training and another text, or another file."""
    before = {about.get("function"): about for about in then if "function" in about}
    pairs = [(about, before[about["function"]]) for about in now if about.get("function") in before]
    return [sentence for pair in pairs if (sentence := _changed(*pair))]


def _changed(now: Mapping[str, Any], then: Mapping[str, Any]) -> str | None:
    """What is another about a function, or a module, of the same name; earlier versions stored the hash of the file."""
    file, earlier = now.get("file_sha256"), then.get("file_sha256")
    about = f"'{now['function']}' ({now['source'] or 'no file'})"
    if then["sha256"] not in (now["sha256"], file):
        return (
            f"the {'module' if ':' in now['function'] else 'function'} {about} has changed since the training: its "
            f"hash is {now['sha256'][:12]} and was {then['sha256'][:12]}"
        )
    if file and earlier and file != earlier:
        return (
            f"the file of the function {about} has changed since the training, but not the text of the function: the "
            f"file's hash is {file[:12]} and was {earlier[:12]}"
        )
    return None


def _file_name(function: Any) -> str:
    """The name of the file that a function is from; empty if there is none."""
    try:
        return Path(inspect.getsourcefile(function) or "").name
    except TypeError:  # an object, or a function in C
        return ""


def _bare(function: Any) -> Any:
    """The function inside of functools.partial."""
    return _bare(function.func) if isinstance(function, partial) else function


def _hash(function: Callable[..., Any]) -> str:
    """Hash of the text of a function, or of its code where there is no text; it is the same in every process."""
    bare = _bare(function)
    found = bare if hasattr(bare, "__name__") else type(bare)  # the text of an object is that of its class
    try:
        text = inspect.getsource(found)
    except (OSError, TypeError):
        text = _code_text(found.__code__) if hasattr(found, "__code__") else found.__qualname__
    return hashlib.sha256(text.encode()).hexdigest()


def _code_text(code: CodeType) -> str:
    constants = [_code_text(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return repr((code.co_code, constants, code.co_names))


def _parameters(function: Callable[..., Any], name: str) -> Args:
    """The parameters after the five that every function gets, with their defaults."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return {}
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) < len(GIVEN) and not takes_any:
        raise UserError(f"the function '{name}' takes {len(positional)} arguments; it must take {', '.join(GIVEN)}")
    rest = [*positional[len(GIVEN) :], *(p for p in parameters if p.kind is p.KEYWORD_ONLY)]
    for p in rest:
        if p.default is p.empty:
            raise UserError(f"the parameter '{p.name}' of the function '{name}' needs a default, such as {p.name}=1.0")
    return {p.name: as_number(p.name, p.default) for p in rest}


def as_number(name: str, value: Any) -> np.ndarray:
    """A parameter as a float32 array; raises unless it consists of finite numbers."""
    try:
        with np.errstate(over="ignore"):
            number = np.asarray(value, np.float32)
    except (TypeError, ValueError, OverflowError):
        number = np.full((), np.nan, np.float32)
    if not np.isfinite(number).all():
        raise UserError(f"the parameter '{name}' is {value!r}; give a finite number, or a list of them")
    return number


def collect_defaults(functions: Sequence[StepFunction]) -> Args:
    """The parameters of all functions; one of the same name in two functions is the same parameter."""
    found: Args = {}
    for function in functions:
        for name, default in function.defaults.items():
            if name in found and not np.array_equal(found[name], default):
                raise UserError(f"the parameter '{name}' has different defaults in two functions; give them one")
            found[name] = default
    return found


def with_args(defaults: Args, given: Mapping[str, Any]) -> Args:
    """The defaults with some parameters replaced; raises for a name or a shape that no function has."""
    for name in given:
        if name not in defaults:
            if not defaults:
                raise UserError(f"there is no parameter '{name}': the cost functions have no parameters with a default")
            raise unknown("parameter of the cost functions", name, defaults)
    found = {name: as_number(name, given.get(name, default)) for name, default in defaults.items()}
    for name, default in defaults.items():
        if found[name].shape != default.shape:
            raise UserError(f"the parameter '{name}' has shape {found[name].shape}; its default has {default.shape}")
    return found


def stored_args(defaults: Args, stored: Mapping[str, Any]) -> Args:
    """The defaults with what a run folder stores; it may know parameters that the functions no longer have."""
    numbers = {name: as_number(name, value) for name, value in stored.items() if name in defaults}
    return with_args(defaults, {name: x for name, x in numbers.items() if x.shape == np.shape(defaults[name])})


def plain_args(args: Args) -> dict[str, Any]:
    """Parameters for functions in Python: numbers instead of arrays without axes, which are slow there."""
    return {name: value.item() if np.ndim(value) == 0 else value for name, value in args.items()}


def args_to_json(args: Args) -> dict[str, Any]:
    """Parameters as JSON."""
    return {name: np.asarray(value, np.float64).tolist() for name, value in args.items()}


def parse_assignments(texts: Sequence[str]) -> dict[str, Any]:
    """Values by name from texts name=value; a value is read as JSON if it is JSON, else as text."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UserError(f"'{text}' is not name=value; write for example low=1.1")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
        if isinstance(found[name], float) and not math.isfinite(found[name]):
            raise UserError(f"'{text}' is not finite; give a finite number")
    return found
