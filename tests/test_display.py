import io
import sys

import pytest

from safedsr import display
from safedsr.train import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def chunk(step, count=50):
    return Progress(step=step, steps=200, count=count, goal_rate=0.5, safe_goal_rate=0.25, lam=0.125, lanes=4)


def test_a_bar_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with display.progress_bar("safedqn") as show:
        waiting = terminal.getvalue()
        show(chunk(100))
    shown = terminal.getvalue()
    assert "safedqn" in waiting and "compiling" in waiting
    for word in ("100/200", "goal 0.50", "safe 0.25", "λ 0.125", "steps/s"):
        assert word in shown


def test_lines_elsewhere(capsys, monkeypatch):
    """One at once, one every ten seconds, one at the end."""
    now = [0.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    with display.progress_bar("safedsr") as show:
        for step, seconds in ((50, 5.0), (100, 2.0), (150, 9.0), (200, 1.0)):
            now[0] += seconds
            show(chunk(step))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["50/200", "150/200", "200/200"]
    assert lines[0].endswith("5 s, 15 s left") and "goal 0.50  safe 0.25  λ 0.125" in lines[0]
    assert "  22 steps/s" in lines[1]  # four walkers, 50 steps in nine seconds
    assert lines[2].endswith("17 s, 0 s left")


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_a_failure_passes_through(monkeypatch, kind):
    monkeypatch.setattr(sys, "stderr", kind())
    with pytest.raises(RuntimeError, match="diverged"), display.progress_bar("safedqn"):
        raise RuntimeError("diverged")
