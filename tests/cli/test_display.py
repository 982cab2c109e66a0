import io
import sys

import pytest

from safedsr.cli import display
from safedsr.engine.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def chunk(step, count=50):
    return Progress(step=step, steps=200, count=count, goal_rate=0.5, safe_goal_rate=0.25, lam=0.125, lanes=4)


def test_what_counts_is_shown():
    goals, returns = chunk(50), chunk(50)._replace(ret=123.456)
    means = returns._replace(cost=(0.25, 10.0))
    found = [display._outcome(p) for p in (goals, returns, means)]
    assert found == ["goal 0.50  safe 0.25", "return 123.5  safe 0.25", "return 123.5  cost 0.25 | 10"]


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
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with display.progress_bar("safedsr") as show:
        for step, seconds in ((50, 5.0), (100, 2.0), (150, 9.0), (200, 1.0)):
            now[0] += seconds
            show(chunk(step))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["50/200", "150/200", "200/200"]
    assert lines[0].endswith("5 s, 15 s left") and "goal 0.50  safe 0.25  λ 0.125" in lines[0]
    assert "  22 steps/s" in lines[1]  # four walkers, 50 steps in nine seconds
    assert lines[2].endswith("17 s, 0 s left")


def test_several_jobs_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with display.jobs_bar("baselines", 0.25) as show:
        waiting = terminal.getvalue()
        show("cpo (2 of 4)", chunk(100), 0.375)
    shown = terminal.getvalue()
    assert "25%" in waiting and "compiling" in waiting
    for word in ("baselines", "38%", "cpo (2 of 4) 100/200", "goal 0.50", "ETA 0:00:"):
        assert word in shown


def test_time_left_of_several_jobs(capsys, monkeypatch):
    """At the pace since the start, in which what was done before has no part."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with display.jobs_bar("baselines", 0.5) as show:
        for seconds, step, share in ((4000.0, 50, 0.6), (5.0, 100, 0.7), (3995.0, 200, 0.75)):
            now[0] += seconds
            show("cpo (3 of 4)", chunk(step), share)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("baselines 60%  cpo (3 of 4) 50/200 ") and first.endswith("ETA 4:26:40  4000 s")
    assert second.startswith("baselines 75%  cpo (3 of 4) 200/200 ") and second.endswith("ETA 2:13:20  8000 s")


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_a_failure_passes_through(monkeypatch, kind):
    monkeypatch.setattr(sys, "stderr", kind())
    with pytest.raises(RuntimeError, match="diverged"), display.progress_bar("safedqn"):
        raise RuntimeError("diverged")
