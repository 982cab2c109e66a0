"""A report as files: tables.md, the rows as CSV, and index.html, one page with all tables and figures."""

import base64
import csv
import html
import io
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from safedsr.errors import one_line
from safedsr.paper.tables import TABLES, PaperTable, Reported
from safedsr.report.own import OwnRow, OwnTable
from safedsr.report.tables import VERDICTS, Report, TableRow
from safedsr.runs.metrics import Summary
from safedsr.runs.storage import make_folder, require_own, write_text

COLUMNS = ("algorithm", "seeds", "mean", "std", "p25", "IQM (95 %)", "p75", "paper", "ratio", "verdict")
DOUBLED = "Were the costs of the paper's baselines counted twice?"
DOUBLED_COLUMNS = ("condition", "Σ |log ratio| (95 %)", "fits best in")
DOUBLED_NOTE = (
    "Mean goals and safe goals of seven baselines in one room with the diamond costs, compared with the paper's means. "
    "The interval and the last column come from a bootstrap over seeds. Safety counted with doubled costs is the same "
    "as safety counted with half the budget."
)
INTRODUCTION = (
    "The paper's tables with our results: statistics over seeds, the interquartile mean (IQM) with its 95 % bootstrap "
    "interval, the paper's IQM, and the ratio of our IQM to the paper's. A row without a paper value is not in the "
    "paper: its algorithm, settings, costs, budget or steps are different."
)
TITLE, OWN_TITLE = "Results beside the paper's tables", "Comparison of runs"
MARKS = tuple(
    mark.encode()
    for mark in (
        f"# {TITLE}\n",
        f"# {OWN_TITLE}\n",
        "table,metric,",
        "table,environment,run,",
        "<title>safedsr report</title>",
    )
)
FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # first letters of a formula
STYLE = """\
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 0 0 1.5rem; font-variant-numeric: tabular-nums; font-size: 0.875rem; }
th, td { padding: 0.2rem 0.7rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child, th:last-child, td:last-child { text-align: left; }
caption { text-align: left; font-weight: 600; padding: 0.6rem 0; }
.scroll { overflow-x: auto; }
.agrees { color: light-dark(#00684a, #5fd3a8); }
.differs { color: light-dark(#a8200d, #ff9a85); }
img { max-width: 100%; background: #fff; padding: 0.5rem; box-sizing: border-box; }
"""


PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>safedsr report</title>
<style>
{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def cells(row: TableRow) -> tuple[str, ...]:
    """A row as text, in the order of COLUMNS."""
    found = row.found
    return (
        row.label,
        str(row.seeds),
        *(f"{value:.1f}" for value in (found.mean, found.std, found.p25)),
        f"{found.iqm:.1f} ({found.low:.1f} … {found.high:.1f})",
        f"{found.p75:.1f}",
        f"{row.paper.iqm:.1f}" if row.paper else "",
        "" if row.ratio is None else f"{row.ratio:.2f}",
        row.verdict,
    )


def doubled_rows(report: Report) -> list[tuple[str, ...]]:
    """How well each way to count costs fits the paper, in the order of DOUBLED_COLUMNS."""
    return [
        (name, f"{found.value:.2f} ({found.low:.2f} … {found.high:.2f})", f"{found.best:.1%}")
        for name, found in (report.doubled or {}).items()
    ]


def sections(rows: Sequence[TableRow]) -> list[tuple[str, list[TableRow]]]:
    """The rows of a table by environment."""
    return [(name, list(group)) for name, group in groupby(rows, lambda row: row.environment)]


def own_columns(table: OwnTable) -> tuple[str, ...]:
    """The columns of a table of one's own runs; those of costs have their budgets."""
    names = dict.fromkeys(name for row in table.rows for name in row.found)
    return ("run", "seeds", *(f"{n}, budget {table.budgets[n]:g}" if n in table.budgets else n for n in names))


def own_cells(table: OwnTable) -> list[tuple[str, ...]]:
    """The rows of such a table as text."""
    names = dict.fromkeys(name for row in table.rows for name in row.found)
    return [(row.label, str(row.seeds or ""), *(_interval(row, name) for name in names)) for row in table.rows]


def _interval(row: OwnRow, name: str) -> str:
    if name not in row.found:
        return ""
    value, low, high = map(_short, row.found[name])
    return value if low == high else f"{value} ({low} … {high})"


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def heading(table: PaperTable) -> str:
    """The heading of a table."""
    return f"Table {table.number}: {table.title}"


def own_dict(table: OwnTable) -> dict[str, Any]:
    """A table of one's own runs for JSON."""
    rows = [
        {"run": row.label, "seeds": row.seeds, **{name: found._asdict() for name, found in row.found.items()}}
        for row in table.rows
    ]
    return {"table": table.kind, "environment": table.environment, "budgets": table.budgets, "rows": rows}


def as_dict(row: TableRow) -> dict[str, Any]:
    """A row for JSON."""
    return {
        "table": row.table.number,
        "metric": row.table.metric,
        "environment": row.environment,
        "algorithm": row.label,
        "seeds": row.seeds,
        "found": row.found._asdict(),
        "paper": row.paper._asdict() if row.paper else None,
        "ratio": row.ratio,
        "verdict": row.verdict,
    }


def write_report(report: Report, folder: str | Path, figures: Sequence[tuple[str, Path]] = ()) -> Path:
    """Write the files into a folder; return the path of the page."""
    folder = make_folder(Path(folder))
    texts = {"tables.md": markdown(report), "index.html": page(report, figures)}
    texts |= {"tables.csv": comma_separated(report)} if report.rows else {}
    texts |= {"runs.csv": own_comma_separated(report)} if report.own else {}
    for name in texts:
        require_own(folder / name, MARKS)
    for name, text in texts.items():
        write_text(folder / name, text)
    return folder / "index.html"


def markdown(report: Report) -> str:
    """The tables as Markdown."""
    lines = [f"# {TITLE if report.rows else OWN_TITLE}"]
    if report.rows:
        lines += ["", INTRODUCTION, "", *(f"- **{name}**: {meaning}" for name, meaning in VERDICTS.items())]
    for table in TABLES:
        if rows := report.of(table):
            lines += ["", f"## {heading(table)}"]
            for environment, group in sections(rows):
                lines += [
                    "",
                    f"### {_escaped(environment)}",
                    "",
                    _pipes(COLUMNS),
                    _pipes(["---", *["---:"] * 8, "---"]),
                ]
                lines += [_pipes(cells(row)) for row in group]
            lines += ["", table.note] if table.note else []
    if rows := doubled_rows(report):
        lines += ["", f"## {DOUBLED}", "", _pipes(DOUBLED_COLUMNS), _pipes(["---", "---:", "---:"])]
        lines += [*map(_pipes, rows), "", DOUBLED_NOTE]
    for environment, tables in groupby(report.own, lambda table: table.environment):
        lines += ["", f"## {_escaped(environment)}"]
        for table in tables:
            columns = own_columns(table)
            lines += ["", f"### {table.kind}", "", _pipes(columns), _pipes(["---", *["---:"] * (len(columns) - 1)])]
            lines += [*map(_pipes, own_cells(table)), "", _escaped(table.note)]
    if report.remarks:
        lines += ["", "## Remarks", "", *(f"- {_escaped(remark)}" for remark in report.remarks)]
    return "\n".join(lines) + "\n"


def _pipes(words: Sequence[str]) -> str:
    return f"| {' | '.join(map(_escaped, words))} |"


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", one_line(text)) if re.search(r"[`<>\[|*\n]", text) else text


def _inert(cell: object) -> object:
    """A cell of a CSV file that no program takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in FORMULAS else cell


def comma_separated(report: Report) -> str:
    """The rows as CSV, with all digits."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    paper = [f"paper_{name}" for name in Reported._fields]
    writer.writerow(
        ["table", "metric", "environment", "algorithm", "seeds", *Summary._fields, *paper, "ratio", "verdict"]
    )
    for row in report.rows:
        about = (row.table.number, row.table.metric, row.environment, row.label, row.seeds)
        writer.writerow([*map(_inert, about), *row.found, *(row.paper or [""] * len(paper)), row.ratio, row.verdict])
    return file.getvalue()


def own_comma_separated(report: Report) -> str:
    """The numbers of one's own runs as CSV, with all digits."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["table", "environment", "run", "seeds", "metric", "value", "low", "high", "budget"])
    for table in report.own:
        for row in table.rows:
            for metric, found in row.found.items():
                about = (table.kind, table.environment, row.label, row.seeds, metric)
                writer.writerow([*map(_inert, about), *found, table.budgets.get(metric, "")])
    return file.getvalue()


def page(report: Report, figures: Sequence[tuple[str, Path]] = ()) -> str:
    """The whole report as one HTML page, with the figures inside."""
    parts = [f"<h1>{TITLE if report.rows else OWN_TITLE}</h1>"]
    if report.rows:
        parts[0] += f"\n<p>{html.escape(INTRODUCTION)}</p>"
        parts += ["<ul>", *(f"<li><b>{name}</b>: {html.escape(text)}</li>" for name, text in VERDICTS.items()), "</ul>"]
    for table in TABLES:
        if rows := report.of(table):
            parts.append(f"<h2>{html.escape(heading(table))}</h2>")
            for environment, group in sections(rows):
                parts.append(_html_table(environment, COLUMNS, map(cells, group), [row.verdict for row in group]))
            parts += [f"<p>{html.escape(table.note)}</p>"] if table.note else []
    if rows := doubled_rows(report):
        parts += [_html_table(DOUBLED, DOUBLED_COLUMNS, rows, [""] * len(rows)), f"<p>{html.escape(DOUBLED_NOTE)}</p>"]
    for environment, tables in groupby(report.own, lambda table: table.environment):
        parts.append(f"<h2>{html.escape(environment)}</h2>")
        for table in tables:
            rows = own_cells(table)
            parts.append(_html_table(table.kind, own_columns(table), rows, [""] * len(rows)))
            parts.append(f"<p>{html.escape(table.note)}</p>")
    parts += ["<h2>Figures</h2>"] if figures else []
    parts += [_html_figure(title, path) for title, path in figures]
    if report.remarks:
        parts += ["<h2>Remarks</h2>\n<ul>", *(f"<li>{html.escape(remark)}</li>" for remark in report.remarks), "</ul>"]
    return PAGE.format(style=STYLE, body="\n".join(parts))


def _html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], kinds: Sequence[str]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    lines = [
        f'<tr class="{kind}">' + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row, kind in zip(rows, kinds, strict=True)
    ]
    caption = f"<caption>{html.escape(title)}</caption>"
    return f'<div class="scroll"><table>{caption}\n<tr>{head}</tr>\n' + "\n".join(lines) + "\n</table></div>"


def _html_figure(title: str, path: Path) -> str:
    data = base64.b64encode(Path(path).read_bytes()).decode()
    name = html.escape(title, quote=True)
    return f'<figure><img alt="{name}" src="data:image/png;base64,{data}"><figcaption>{name}</figcaption></figure>'
