"""A generator of damage: valid bytes, JSON, text and command lines, and what can happen to them."""

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

# Values that a field may be given instead of its own; most of them once broke something.
STRANGE: list[Any] = [
    *(None, True, False, 0, -1, 1, -5, 2**31, 2**63, 10**12, 10**30, -(10**12), 0.5, -0.0, 1e-300, 1e38, 1e300),
    *("", "x", "nan", "Infinity", "5", "[/x]", "<script>", "=1+1", "\x1b[31m", "\0", "a\nb", "\ud800", "ε", "../.."),
    "x" * 5000,
    *([], {}, [None], [[]], [1, 2, 3], {"name": None}, {"a": {"b": {}}}, [{}], ["x", 1]),
]  # fmt: skip
WORDS = [
    *("", "-1", "0", "1e999", "nan", "inf", "-inf", "1.5", "10000000000000", "9" * 30, "none", "None", "\x1b[0m"),
    *("[/x]", "1*" * 3000 + "diamond", "9" * 60 + "*diamond", "diamond,diamond", ",", "=", "--", "-", "--out", "true"),
    *("a\0b", "/", "/dev/null", "..", "x" * 5000, "ä", "\udc80", "1,2,3", "5,", "1_000", "０", "+5", " 5"),
]  # fmt: skip


@st.composite
def damaged_bytes(draw: st.DrawFn, content: bytes) -> bytes | None:
    """The content after one accident; None if the file is gone."""
    kind = draw(
        st.sampled_from(["gone", "empty", "cut", "flip", "delete", "insert", "swap", "double", "encode", "zeros"])
    )
    size = len(content)
    first, second = sorted((draw(st.integers(0, size)), draw(st.integers(0, size))))
    second = min(second, first + 40)
    changes: dict[str, Callable[[], bytes | None]] = {
        "gone": lambda: None,
        "empty": lambda: b"",
        "cut": lambda: content[:first],
        "flip": lambda: (
            content[:first] + bytes(255 - byte for byte in content[first : first + 1]) + content[first + 1 :]
        ),
        "delete": lambda: content[:first] + content[second:],
        "insert": lambda: content[:first] + draw(st.binary(min_size=1, max_size=8)) + content[first:],
        "swap": lambda: content[second:] + content[:second],
        "double": lambda: content + content,
        "encode": lambda: content.decode("latin-1").encode("utf-16"),
        "zeros": lambda: content[:first] + bytes(second - first) + content[second:],
    }
    return changes[kind]()


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in nested lists and dictionaries."""
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(place for key, value in inside for place in places(value, (*path, key)))]


@st.composite
def damaged_json(draw: st.DrawFn, data: Any) -> Any:
    """The data after one to three changes of its values or keys."""
    data = copy.deepcopy(data)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(data)))
        if not path:
            continue
        *way, last = path
        parent = data
        for key in way:
            parent = parent[key]
        kind = draw(st.sampled_from(["retype", "retype", "retype", "delete", "rename", "nest", "double"]))
        if kind == "retype":
            parent[last] = copy.deepcopy(draw(st.sampled_from(STRANGE)))
        elif kind == "nest":
            parent[last] = [parent[last]] if draw(st.booleans()) else {"value": parent[last]}
        elif isinstance(parent, dict):
            value = parent.pop(last)
            if kind != "delete":
                parent[draw(st.sampled_from(["x", f"{last}s", "name", "step"]))] = value
        elif kind == "double":
            parent.append(parent[last])
        else:
            parent.pop(last)
    return data


def as_json(data: Any) -> str:
    """The text of damaged JSON; NaN and half characters included."""
    return json.dumps(data)


@st.composite
def damaged_text(draw: st.DrawFn, text: str) -> str:
    """A text after one to three changes."""
    for _ in range(draw(st.integers(1, 3))):
        first, second = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
        new = draw(
            st.sampled_from(["", "\n", "\n\n", "#", "S", "G", "C", "\ufeff", "\r\n", "\t", "A = x", "A = x -1", *WORDS])
        )
        text = text[:first] + new + text[min(second, first + 3) :]
    return text


@st.composite
def damaged_line(draw: st.DrawFn, args: list[str]) -> list[str]:
    """A command line after one or two changes."""
    args = list(args)
    for _ in range(draw(st.integers(1, 2))):
        n = draw(st.integers(0, len(args) - 1))
        kind = draw(st.sampled_from(["replace", "replace", "delete", "double", "misspell", "insert", "join"]))
        if kind == "replace":
            args[n] = draw(st.sampled_from(WORDS))
        elif kind == "delete" and len(args) > 1:
            args.pop(n)
        elif kind == "double":
            args.insert(n, args[n])
        elif kind == "misspell":
            args[n] = args[n][:3] + args[n][4:] + draw(st.sampled_from(["", "s", "=", "=5"]))
        elif kind == "insert":
            args.insert(n, draw(st.sampled_from(WORDS)))
        elif n + 1 < len(args):
            args[n : n + 2] = [f"{args[n]}={args[n + 1]}"]
    return args


KINDS = ("drop", "rename", "retype", "shorten", "flatten", "deepen", "empty", "fill", "worse", "overflow")


@st.composite
def damaged_arrays(draw: st.DrawFn, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Named arrays after one or two changes of names, shapes, types or values."""
    arrays = dict(arrays)
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(sorted(arrays) or ["x"]))
        array, kind = arrays.pop(name, np.zeros(1)), draw(st.sampled_from(KINDS))
        if kind == "rename":
            name = draw(st.sampled_from(["x", "9/9/obs", "0/0", "a/b/c", "cost_7", "seed"]))
        if kind != "drop":
            with np.errstate(all="ignore"):
                arrays[name] = _changed(draw, array, kind)
    return arrays


def _changed(draw: st.DrawFn, array: np.ndarray, kind: str) -> np.ndarray:
    if kind == "retype":
        return array.astype(draw(st.sampled_from(["float64", "int64", "int8", "bool", "float16"])))
    if kind == "fill":
        return np.full_like(array, draw(st.sampled_from([0, 1, 7, 99])))
    if kind == "worse":
        return array.astype("float64") * draw(st.sampled_from([np.nan, np.inf, -1.0, 1e18]))
    if kind == "overflow":
        return np.full(array.shape, draw(st.sampled_from([2**62, -(2**62), -1])))
    shapes = {"shorten": array[:-1], "flatten": array.ravel(), "deepen": array[..., None], "empty": array[:0]}
    return shapes.get(kind, array)
