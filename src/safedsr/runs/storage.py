"""Atomic file writes, locks, and tables as Parquet or safetensors, never pickle. Files are complete or absent."""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from safedsr.errors import UserError


class MissingFile(UserError):
    """An expected file does not exist."""


Columns = dict[str, np.ndarray]  # columns of equal length; the first axis of each is the row


def write_atomic(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, flush it to disk, then rename it to `path`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        temporary.chmod(0o644)  # some writers create files that only the owner can read
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_json(path: Path, data: Any) -> None:
    """Write an indented JSON file."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomic(path, lambda file: file.write_text(text, encoding="utf-8"))


def read_json(path: Path, keys: Sequence[str] = ()) -> dict[str, Any]:
    """Read the object in a JSON file, which must have these keys; errors name the file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MissingFile(f"{path} is missing") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged: {error}") from None
    missing = [key for key in keys if not isinstance(data, dict) or key not in data]
    if missing or not isinstance(data, dict):
        raise UserError(f"{path} is damaged: it lacks {', '.join(missing) or 'its content'}")
    return data


def write_tensors(path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Write named arrays with metadata and a checksum."""
    from safetensors.numpy import save_file

    whole = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    about = {**metadata, "sha256": _digest(whole)}
    write_atomic(path, lambda file: save_file(whole, file, metadata=about))


def _digest(tensors: Mapping[str, np.ndarray]) -> str:
    found = hashlib.sha256()
    for name in sorted(tensors):
        found.update(name.encode())
        found.update(tensors[name].tobytes())
    return found.hexdigest()


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read what `write_tensors` wrote; errors name the file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            tensors, about = {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except FileNotFoundError:
        raise MissingFile(f"{path} is missing") from None
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} is damaged: {error}") from None
    if "sha256" in about and about.pop("sha256") != _digest(tensors):
        raise UserError(f"{path} is damaged: its content does not match its checksum")
    return tensors, about


def write_table(stem: Path, table: Columns, metadata: Mapping[str, str]) -> Path:
    """Write a table as `<stem>.parquet`, or as `<stem>.safetensors` if pyarrow is missing."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        path, other = stem.with_suffix(".safetensors"), stem.with_suffix(".parquet")
        write_tensors(path, table, metadata)
        other.unlink(missing_ok=True)
        return path
    path, other = stem.with_suffix(".parquet"), stem.with_suffix(".safetensors")
    content = pyarrow.table(table).replace_schema_metadata(dict(metadata))
    # Counters grow slowly and other columns repeat values: these encodings give half the default size.
    counters = [name for name, column in table.items() if column.dtype == np.int64]
    encoding = {
        "compression": "zstd",
        "use_dictionary": [name for name in table if name not in counters],
        "column_encoding": dict.fromkeys(counters, "DELTA_BINARY_PACKED"),
    }
    write_atomic(path, lambda file: pyarrow.parquet.write_table(content, file, **encoding))
    other.unlink(missing_ok=True)
    return path


def read_table(stem: Path) -> tuple[Columns, dict[str, str]] | None:
    """Read a table that `write_table` wrote in either format; None if there is none."""
    if (path := stem.with_suffix(".safetensors")).exists():
        return read_tensors(path)
    if not (path := stem.with_suffix(".parquet")).exists():
        return None
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError(f"{path} needs pyarrow to be read; pip install 'safedsr[parquet]'") from None
    try:
        content = pyarrow.parquet.read_table(path)
    except FileNotFoundError:
        raise MissingFile(f"{path} is missing") from None
    except (OSError, pyarrow.ArrowException) as error:
        raise UserError(f"{path} is damaged: {error}") from None
    metadata = {key.decode(): value.decode() for key, value in (content.schema.metadata or {}).items()}
    return {name: content[name].to_numpy() for name in content.column_names}, metadata


def concatenate(tables: list[Columns]) -> Columns:
    """The rows of several tables, one after the other."""
    if not tables:
        return {}
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold a lock file; the system releases it whenever the process ends."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"{path.parent} is in use by another process; wait for it or choose another folder"
            ) from None
        yield


def unclaimed(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that do not exist and that no other process writes; each is locked while the caller writes it."""
    for path in paths:
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(lock(path.with_suffix(".lock")))
            except UserError:
                continue
            if not path.exists():
                yield path
