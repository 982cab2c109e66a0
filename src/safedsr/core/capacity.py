"""Memory: what a request needs is computed before it is made, and refused with what would fit."""

from collections.abc import Mapping
from pathlib import Path

from safedsr.errors import UserError

GIB = 2**30


def free_memory() -> int | None:
    """Bytes of memory that are free for this process, or None if the system does not tell."""
    found = [size for size in (_available(), _left_in_group()) if size is not None]
    return min(found, default=None)


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return None


def _left_in_group(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that the control group of this process (a container, a job of a cluster) may still use."""
    try:
        most, used = (int((folder / f"memory.{name}").read_text()) for name in ("max", "current"))
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return most - used + int(stat.get("inactive_file", 0))
    except (OSError, ValueError):  # no control group, or no limit
        return None


def require_room(what: str, need: float, free: float | None, cure: str) -> None:
    """Raise if a request needs more memory than is free; `cure` says what would fit."""
    if free is not None and need > free:
        raise UserError(f"{what} need about {in_gib(need)} GiB and {in_gib(free)} GiB are free; {cure}")


def in_gib(size: float) -> str:
    """A number of bytes in GiB."""
    return f"{size / GIB:.1f}" if size < 1e4 * GIB else f"{size / GIB:.2g}"


def fitting(asked: float, need: float, free: float | None, power: float = 1.0) -> int:
    """The largest number that fits, if `asked` needs `need` bytes; the need grows with this power of the number."""
    return int(asked * (max(free or 0, 0) / need) ** (1 / power)) if need > 0 else int(asked)


def largest_part(parts: Mapping[str, float]) -> str:
    """The name of the part that needs most memory."""
    return max(parts, key=lambda name: parts[name])
