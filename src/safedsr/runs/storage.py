"""Atomic file writes, locks, and tables as Parquet or safetensors, never pickle. Files are complete or absent.

A reader raises a `UserError` that names the file; a writer raises a `DiskError`, and what was there before stays.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from safedsr.errors import DiskError, UserError
from safedsr.validation import in_file, require, shown


class MissingFile(UserError):
    """An expected file does not exist."""


Columns = dict[str, np.ndarray]  # columns of equal length; the first axis of each is the row


HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]  # in the names of temporary folders
TEMPORARY = re.compile(r"\.([0-9a-f]{8})-(\d+)-\w*\.tmp|\.tmp\w{6}|\..*\.\d+\.tmp")  # the last two: older versions
FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG, errno.ESTALE)  # of a disk, not of a path
SIGNED = "sha256"  # entry of a signed JSON file


@contextlib.contextmanager
def disk(path: Path) -> Iterator[None]:
    """Errors of this block that a disk causes name the file and the cause."""
    try:
        yield
    except OSError as error:
        raise DiskError(f"cannot write {path}: {error.strerror or error}") from None


def write_atomic(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file in a temporary folder beside `path`, flush it to disk, then rename it to `path`."""
    with disk(path):
        sweep(path.parent)
        temporary = Path(tempfile.mkdtemp(".tmp", f".{HOST}-{os.getpid()}-", path.parent))
        try:
            write(temporary / path.name)
            (temporary / path.name).chmod(0o644)  # some writers create files that only the owner can read
            with (temporary / path.name).open("rb") as file:
                os.fsync(file.fileno())
            (temporary / path.name).replace(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def sweep(folder: Path, *, locked: bool = False) -> None:
    """Delete what writers of this machine that were killed left in a folder; all temporary files if it is `locked`."""
    for entry in folder.iterdir():
        found = TEMPORARY.fullmatch(entry.name)
        if found and (locked or (found[1] == HOST and not _alive(int(found[2])))):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def make_folder(path: Path) -> Path:
    """Make a folder for output, with its parents."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        kind = DiskError if getattr(error, "errno", None) in FAULTS else UserError
        raise kind(f"cannot make the folder {path}: {getattr(error, 'strerror', None) or error}") from None
    return path


def require_own(path: Path, marks: Sequence[bytes]) -> None:
    """Raise if a file that is to be written exists and has none of these texts, with which safedsr marks its files."""
    if not path.exists():
        return
    with contextlib.suppress(OSError):
        content = path.read_bytes()
        if any(mark in content for mark in marks):
            return
    raise UserError(f"{path} exists and this command did not write it; choose another folder or name, or remove it")


def write_text(path: Path, text: str) -> None:
    """Write a text file."""
    write_atomic(path, lambda file: file.write_text(text, encoding="utf-8", newline=""))


def write_json(path: Path, data: Any, *, signed: bool = False) -> None:
    """Write an indented JSON file; a signed one has a checksum of itself."""
    if signed:
        data = {**data, SIGNED: _signature(data)}
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _signature(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def read_json(path: Path, keys: Sequence[str] = ()) -> dict[str, Any]:
    """Read the object in a JSON file, which must have these keys; errors name the file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except FileNotFoundError:
        raise MissingFile(f"{path} is missing") from None
    except RecursionError:
        raise UserError(f"{path} is damaged: it is nested too deeply") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged: {error}") from None
    missing = [key for key in keys if not isinstance(data, dict) or key not in data]
    if missing or not isinstance(data, dict):
        raise UserError(f"{path} is damaged: it lacks {', '.join(missing) or 'its content'}")
    signature = data.pop(SIGNED, None)
    if signature is not None and signature != _signature(data):
        raise UserError(f"{path} is damaged: its content does not match its checksum (sha256)")
    return data


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def write_tensors(path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Write named arrays with metadata and a checksum."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    whole = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    about = {**metadata, SIGNED: _digest(whole)}

    def save(file: Path) -> None:
        try:
            save_file(whole, file, metadata=about)
        except SafetensorError as error:
            raise OSError(str(error)) from None

    write_atomic(path, save)


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
    except (OSError, ValueError, TypeError, SafetensorError) as error:
        raise UserError(f"{path} is damaged: {error}") from None
    return tensors, _verified(tensors, about, path)


def _verified(tensors: Mapping[str, np.ndarray], about: Mapping[str, str], path: Path) -> dict[str, str]:
    """The metadata of a file without its checksum, which must be that of the content."""
    if SIGNED in about and about[SIGNED] != _digest(tensors):
        raise UserError(f"{path} is damaged: its content does not match its checksum (sha256)")
    return {name: value for name, value in about.items() if name != SIGNED}


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
    content = pyarrow.table(table).replace_schema_metadata({**metadata, SIGNED: _digest(table)})
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
        metadata = {key.decode(): value.decode() for key, value in (content.schema.metadata or {}).items()}
        table = {name: content[name].to_numpy() for name in content.column_names}
    except FileNotFoundError:
        raise MissingFile(f"{path} is missing") from None
    except (OSError, ValueError, KeyError, TypeError, MemoryError, pyarrow.ArrowException) as error:
        raise UserError(f"{path} is damaged: {error}") from None
    return table, _verified(table, metadata, path)


def check_table(table: Columns, kinds: Mapping[str, str], source: str) -> Columns:
    """The table, if it has these columns of equal length; a kind is the letters of the allowed NumPy types."""
    with in_file(source):
        if lacking := sorted(set(kinds) - set(table)):
            raise UserError(f"the table lacks the column '{lacking[0]}'; found: {shown(sorted(table))}")
        lengths = {np.shape(column)[:1] for column in table.values()}
        require(len(lengths) == 1, "the number of rows", sorted(map(str, lengths)), "all columns need equally many")
        for name, column in table.items():
            wanted = kinds.get(name, "biuf")
            require(column.dtype.kind in wanted, f"column '{name}'", str(column.dtype), "give numbers")
            fine = column.dtype.kind != "f" or np.isfinite(column).all() or name not in kinds
            require(bool(fine), f"column '{name}'", "not finite everywhere", "give finite numbers")
    return table


def whole_number(about: Mapping[str, str], name: str, path: Path) -> int:
    """A number of at least 0 in the metadata of a file."""
    with in_file(path):
        text = about.get(name, "")
        require(bool(re.fullmatch(r"\d{1,18}", text)), name, text, "give a whole number of at least 0")
    return int(text)


def concatenate(tables: list[Columns]) -> Columns:
    """The rows of several tables, one after the other."""
    if not tables:
        return {}
    for table in tables:
        if {name: x.shape[1:] for name, x in table.items()} != {name: x.shape[1:] for name, x in tables[0].items()}:
            raise UserError(f"parts of a table differ: columns {sorted(tables[0])} and {sorted(table)}; train again")
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold a lock file; the system releases it whenever the process ends."""
    with contextlib.ExitStack() as stack:
        with disk(path):
            file = stack.enter_context(path.open("a"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{path.parent} is in use by another process; wait for it or choose another folder"
            ) from None
        except OSError as error:
            raise DiskError(f"cannot lock {path}: {error.strerror}") from None
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
