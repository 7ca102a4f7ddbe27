"""
Which pictures a run makes: time and processor time against the number of files, and against the number of changes.

A row that was measured on one tree only has no line against the number of files; a picture without lines is not made.

    python -m bench.plots DIR RUN.json [RUN.json ...]

draws what several runs found, of the contestants that all of them had.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from bench.plot import Axes, Points, picture
from bench.report import Cell, Report, Section, from_json

BY_FILES = {
    "first": "First capture",
    "one": "A checkpoint after one edit",
    "restore-1": "Restore of one file",
    "restore-1000": "Restore of 1,000 files",
}
BY_CHANGES = {"one": 1, "changed-10": 10, "changed-100": 100, "changed-1000": 1000}
_MILLISECONDS = {"clock": "milliseconds by the clock", "processor": "milliseconds of processor time"}


def draw(report: Report, directory: Path) -> list[Path]:
    """Writes the pictures of a run and returns where they are."""
    directory.mkdir(parents=True, exist_ok=True)
    made = []
    trees = [(size, section) for section in report.sections if (size := _files(section)) is not None]
    for measure, unit in _MILLISECONDS.items():
        for row, title in BY_FILES.items():
            lines = _lines(report, [(size, section, row) for size, section in trees], measure)
            made += _write(directory / f"{row}-{measure}.svg", Axes(title, "files in the project", unit), lines)
        for size, section in trees[-1:]:
            lines = _lines(report, [(count, section, row) for row, count in BY_CHANGES.items()], measure)
            axes = Axes(f"A checkpoint in a project of {size:,} files", "files changed", unit)
            made += _write(directory / f"changes-{measure}.svg", axes, lines)
    return made


def _files(section: Section) -> int | None:
    found = re.fullmatch(r"([\d,]+) files", section.title)
    return int(found[1].replace(",", "")) if found else None


def _lines(report: Report, places: list[tuple[int, Section, str]], measure: str) -> dict[str, Points]:
    lines: dict[str, Points] = {}
    for key, (title, _) in report.contestants.items():
        cells = [(at, section.cell(row, key)) for at, section, row in places if row in section.rows]
        points = [(float(at), value) for at, cell in cells if (value := _value(cell, measure))]
        if len(points) > 1:
            lines[title] = points
    return lines


def _value(cell: Cell, measure: str) -> float | None:
    return cell.value if measure == "clock" else cell.cpu_value


def _write(path: Path, axes: Axes, lines: dict[str, Points]) -> list[Path]:
    if not lines:
        return []
    path.write_text(picture(axes, lines), encoding="utf-8")
    return [path]


def together(reports: list[Report]) -> Report:
    """Returns what several runs found as one, without the contestants that were not in all of them."""
    common = set.intersection(*(set(report.contestants) for report in reports))
    kept = {key: about for key, about in reports[0].contestants.items() if key in common}
    return Report(reports[0].header, kept, [section for report in reports for section in report.sections])


def main(arguments: list[str]) -> int:
    """Draws the pictures of runs that were written as JSON."""
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    runs = [from_json(Path(path).read_text(encoding="utf-8")) for path in arguments[1:]]
    for path in draw(together(runs), Path(arguments[0])):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
