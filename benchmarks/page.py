"""The tables of docs/benchmarks.md, made from measured.json, and what pages say of GPUs, put between their markers.

    python -m benchmarks.page        # makes them again, without measuring anything

A table NAME stands between `<!-- NAME: begin -->` and `<!-- NAME: end -->`, with both in a line of their own, and what
is said in a line between both in it; what is around is prose and stays.
"""

import re
from collections.abc import Callable

from benchmarks import (
    breaking_radius,
    certificate_growth,
    certified_accuracy,
    dimensions,
    images,
    index,
    libraries,
    paper,
    peer_training,
    ratios,
    scale,
    startup,
    store,
    summary,
    targets,
    vnncomp,
    workers,
)
from benchmarks.equal import store as equal
from benchmarks.gpu import docs as gpu
from benchmarks.hiding import store as hiding
from benchmarks.store import Run, Runs
from benchmarks.tables import day, measured, newest

PAGES = tuple(
    store.ROOT / page
    for page in ("docs/benchmarks.md", "docs/scale.md", "docs/equal.md", "docs/hiding.md", "docs/other-tools.md")
)
MARKED = re.compile(r"<!-- (?P<name>[\w ]+): begin -->(?P<inside>.*?)<!-- (?P=name): end -->", re.DOTALL)


def of(benchmark: str, make: Callable[[Run], str]) -> Callable[[Runs], str]:
    """Return what makes a table of one benchmark, with the state of the code below it where it is not the newest."""

    def table(runs: Runs) -> str:
        state = measured(runs, benchmark)
        return make(runs[benchmark]) + (f"\n\n(Measured in {state}.)" if state else "")

    return needs(table, benchmark)


def needs(make: Callable[[Runs], str], *benchmarks: str) -> Callable[[Runs], str]:
    """Return what makes a table, or says which benchmarks it lacks."""

    def table(runs: Runs) -> str:
        lacking = [name for name in benchmarks if name not in runs]
        return f"Not measured: {', '.join(lacking)}." if lacking else make(runs)

    return table


def machine(runs: Runs) -> str:
    """Return where and when the newest figures were measured."""
    last = newest(runs)
    if last is None:
        return "Nothing is stored."
    loads = [run.machine.load for run in runs.values() if run.commit == last.commit]
    cpu, threads = last.machine.cpu or "a processor", last.machine.threads
    load = " to ".join(dict.fromkeys(f"{end:.1f}" for end in (min(loads), max(loads))))
    return (
        f"Newest: {last.commit}, {day(last.date)}, {last.machine.cores} cores of {cpu}, {threads} "
        f"thread{'s' if threads > 1 else ''}, torch {last.machine.torch}, load average {load} at the start. Numbers "
        "from another state of the code are marked."
    )


TABLES: dict[str, Callable[[Runs], str]] = {
    "machine": machine,
    "summary": summary.table,
    "targets": targets.table,
    "images": of("images", images.table),
    "scale": of("scale", scale.table),
    "startup": of("startup", startup.table),
    "index": of("index", index.table),
    "dimensions": of("dimensions", dimensions.table),
    "certificate growth": of("certificate_growth", certificate_growth.table),
    "workers": of("workers", workers.table),
    "breaking radius": of("breaking_radius", breaking_radius.table),
    "certified accuracy": of("certified_accuracy", certified_accuracy.table),
    "verified": of("vnncomp_cifar10_resnet", vnncomp.table),
    "libraries": of("libraries", libraries.table),
    "peer training": of("peer_training", peer_training.table),
    "ratios": ratios.table,
    "constants": of("constants", paper.constants),
    "predicted": needs(paper.predicted, "paper", "constants"),
    "hours": needs(paper.hours, "paper", "constants"),
    "equal": lambda runs: equal.table(),
    "refused": lambda runs: equal.refusals(),
    "hiding": lambda runs: hiding.summary(list(hiding.Measured().rows())),
    "hiding exceptions": lambda runs: hiding.exceptions(list(hiding.Measured().rows())),
    "gpu": lambda runs: gpu.tables(gpu.load()),
    "gpu summary": lambda runs: gpu.summary(gpu.load()),
    "gpu answer": lambda runs: gpu.answer(gpu.load()),
}


def render(text: str, runs: Runs) -> str:
    """Return a page with every table made from what is stored.

    Raises:
        SystemExit: a marker of a table that there is not.
    """

    def made(marked: re.Match[str]) -> str:
        name = marked["name"]
        if name not in TABLES:
            raise SystemExit(f"expected tables among {', '.join(TABLES)}; got a marker of {name!r}")
        around = "\n\n" if "\n" in marked["inside"] else ""
        return f"<!-- {name}: begin -->{around}{TABLES[name](runs)}{around}<!-- {name}: end -->"

    return MARKED.sub(made, text)


def write() -> None:
    """Make the tables of all pages again."""
    for page in PAGES:
        page.write_text(render(page.read_text(encoding="utf-8"), store.load()), encoding="utf-8")


if __name__ == "__main__":
    write()
