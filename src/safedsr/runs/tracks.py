"""Positions as small tables: differences in eighths of a cell, which repeat often and compress well."""

import numpy as np

from safedsr.runs.storage import Columns

PARTS = 8  # per cell


def pack_track(position: np.ndarray, done: np.ndarray, kind: type[np.integer] = np.int16) -> Columns:
    """Positions [n, 2] in cells as differences, and whether episodes end [n]; unsigned integers wrap around."""
    eighths = np.rint(position * PARTS).astype(kind)
    moves = np.diff(eighths, axis=0, prepend=np.zeros((1, 2), kind))
    return {"x": moves[:, 0], "y": moves[:, 1], "end": done}


def restore_track(table: Columns) -> np.ndarray:
    """The positions that `pack_track` packed, with a row of NaN after each episode to break drawn lines."""
    eighths = np.stack([np.cumsum(table[name], dtype=table[name].dtype) for name in ("x", "y")], 1)
    return with_breaks(eighths.astype(np.float32) / PARTS, table["end"])


def with_breaks(position: np.ndarray, done: np.ndarray) -> np.ndarray:
    """Positions with a row of NaN after each episode."""
    return np.insert(position.astype(np.float32), np.flatnonzero(done) + 1, np.nan, axis=0)
