"""Every stored ratio in one table: a row each, with its spread, its target and how it was measured."""

from benchmarks.store import Run, Runs
from benchmarks.tables import figures, markdown, measured, with_ends

TOLD = ("breaking_radius",)
"""Benchmarks that have tables of their own."""


def table(runs: Runs) -> str:
    """Return the ratios of all benchmarks, and what belongs to them in other units."""
    rows = []
    for name, run in sorted(runs.items()):
        if name not in TOLD and not name.startswith("vnncomp"):
            rows += [[f"`{name}`", *row, measured(runs, name)] for row in _rows(run)]
    return markdown(["benchmark", "ratio", "median (lowest to highest)", "rounds", "target", "how", "measured"], rows)


def _rows(run: Run) -> list[list[str]]:
    verdicts = {None: "", True: "met", False: "**not met**"}
    return [
        [
            row.name,
            with_ends(row),
            str(row.rounds),
            "" if row.target is None else f"≤ {figures(row.target)}, {verdicts[row.met]}",
            row.note,
        ]
        for row in run.results
        if row.unit == "x"
    ]
