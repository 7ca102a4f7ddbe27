"""
The result of a run, and its three renderings: text for a terminal, Markdown for a document, JSON for a program.

A cell is one contestant doing one kind of work. Nothing is ever left out: a contestant that is not there, lacks the
operation, failed or did not do the job has a cell that says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from statistics import median

YARDSTICK = "shadow-git"
DOES_NOT_APPLY = "does not apply"


@dataclass(slots=True)
class Cell:
    """One contestant, one kind of work: its samples, or why there are none."""

    row: str
    contestant: str
    samples: list[float] = field(default_factory=list)
    trouble: str = ""
    cpu: list[float] = field(default_factory=list)

    @property
    def cpu_value(self) -> float | None:
        """The median of processor time, the system's and that of processes it started included."""
        return median(self.cpu) if self.cpu and not self.trouble else None

    @property
    def value(self) -> float | None:
        """The median, unless the work was not done."""
        return median(self.samples) if self.samples and not self.trouble else None


@dataclass(slots=True)
class Section:
    """A group of rows measured on the same tree."""

    title: str
    tree: str
    rows: dict[str, tuple[str, str]] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)

    def cell(self, row: str, contestant: str) -> Cell:
        """Returns that cell, making it where it does not exist yet."""
        for cell in self.cells:
            if (cell.row, cell.contestant) == (row, contestant):
                return cell
        self.cells.append(Cell(row, contestant))
        return self.cells[-1]

    def cpu_ratio(self, cell: Cell) -> float | None:
        """Returns how the cell's processor time compares with shadow git's."""
        base = self.cell(cell.row, YARDSTICK).cpu_value
        return cell.cpu_value / base if cell.cpu_value is not None and base else None

    def ratio(self, cell: Cell) -> float | None:
        """Returns how the cell compares with shadow git: 0.5 is half of its time or space."""
        base = self.cell(cell.row, YARDSTICK).value
        return cell.value / base if cell.value is not None and base else None


@dataclass(slots=True)
class Report:
    """Everything one run found."""

    header: dict[str, str]
    contestants: dict[str, tuple[str, str]]
    sections: list[Section] = field(default_factory=list)


def text(report: Report) -> str:
    """Returns the report for a terminal: one line per row and contestant."""
    edge = max(map(len, report.header)) + 1
    out = [f"{name + ':':<{edge}} {value}" for name, value in report.header.items()]
    width = max(len(title) for title, _ in report.contestants.values())
    for section in report.sections:
        out += ["", f"== {section.title}", f"   {section.tree}"]
        for row, (title, unit) in section.rows.items():
            out += ["", f"{title}, {unit}"]
            for key, (name, _) in report.contestants.items():
                cell = section.cell(row, key)
                if cell.trouble != DOES_NOT_APPLY:
                    out.append(f"  {name:<{width}}  {_line(section, cell, unit)}")
    out += ["", *(f"{name}: {about}." for name, about in report.contestants.values())]
    return "\n".join(out) + "\n"


def markdown(report: Report) -> str:
    """Returns the report for a document: one table per section, one column per contestant."""
    out = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in report.header.items())]
    for section in report.sections:
        names = [title for title, _ in report.contestants.values()]
        out += ["", f"### {section.title}", "", section.tree, ""]
        out += ["| median [min-max], x shadow git | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
        for row, (title, unit) in section.rows.items():
            cells = (_short(section, section.cell(row, key), unit) for key in report.contestants)
            out.append(f"| {title}, {unit} | " + " | ".join(cells) + " |")
    out += ["", *(f"- **{name}**: {about}." for name, about in report.contestants.values())]
    return "\n".join(out) + "\n"


def as_json(report: Report) -> str:
    """Returns the report for a program: every sample, with medians and ratios."""
    sections = [
        {"title": section.title, "tree": section.tree, "rows": list(_json_rows(section))} for section in report.sections
    ]
    return (
        json.dumps({"header": report.header, "contestants": report.contestants, "sections": sections}, indent=1) + "\n"
    )


def from_json(written: str) -> Report:
    """Returns the report that `as_json` wrote."""
    data = json.loads(written)
    report = Report(data["header"], {key: tuple(about) for key, about in data["contestants"].items()})
    for each in data["sections"]:
        section = Section(each["title"], each["tree"])
        for row in each["rows"]:
            section.rows[row["row"]] = (row["title"], row["unit"])
            section.cells.append(Cell(row["row"], row["contestant"], row["samples"], row["trouble"], row["cpu"]))
        report.sections.append(section)
    return report


def _json_rows(section: Section) -> Iterator[dict[str, object]]:
    for cell in section.cells:
        title, unit = section.rows[cell.row]
        yield (
            asdict(cell)
            | {"title": title, "unit": unit, "median": cell.value, "ratio": section.ratio(cell)}
            | {
                "cpu_median": cell.cpu_value,
                "cpu_ratio": section.cpu_ratio(cell),
            }
        )


def _line(section: Section, cell: Cell, unit: str) -> str:
    if cell.value is None:
        return f"{'-':>10}  {cell.trouble}"
    ratio = section.ratio(cell)
    compared = f"{_times(ratio):>8}" if ratio is not None else " " * 8
    low, high = min(cell.samples), max(cell.samples)
    spread = f"  [{_number(low, unit)} - {_number(high, unit)}] of {len(cell.samples)}" if len(cell.samples) > 1 else ""
    share = section.cpu_ratio(cell)
    busy = f"  processor {_number(cell.cpu_value, unit)}" if cell.cpu_value is not None else ""
    return f"{_number(cell.value, unit):>10}  {compared}{spread}{busy}" + (
        f" {_times(share)}" if share is not None else ""
    )


def _short(section: Section, cell: Cell, unit: str) -> str:
    if cell.value is None:
        return "" if cell.trouble == DOES_NOT_APPLY else f"- {cell.trouble}"
    ratio = section.ratio(cell)
    spread = (
        f" [{_number(min(cell.samples), unit)}-{_number(max(cell.samples), unit)}]" if len(cell.samples) > 1 else ""
    )
    share = section.cpu_ratio(cell)
    compared = f", {_times(ratio)}" if ratio is not None else ""
    return f"{_number(cell.value, unit)}{spread}{compared}" + (
        f" (processor {_times(share)})" if share is not None else ""
    )


def _times(ratio: float) -> str:
    return f"{ratio:.3f}x" if ratio < 0.1 else f"{ratio:.2f}x"


def _number(value: float, unit: str) -> str:
    scaled = value / 1000 if unit == "KB" else value
    return f"{scaled:,.0f}" if scaled >= 100 else f"{scaled:.1f}" if scaled >= 10 else f"{scaled:.2f}"
