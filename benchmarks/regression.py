"""How often the gate calls an equal encoder worse, and how often it catches noise in an encoder's weights.

    python -m benchmarks.regression [--runs 400] [--folder DIR] [--write]

Real encoders of digits are audited once. Then images are drawn from what was seen, again and again, and each draw is
held against its baseline by the gate's own code:

- *exchanged*: an encoder and one with noise in its weights trade places image by image, by a coin. The two that come of
  it are equal in law, with the dependence that two versions of an encoder have.
- *another attack seed*: one encoder on the same images, attacked from another start.
- *other images*: one encoder on two samples of images, which are not paired; populations differ too.

At the margin the new encoder loses exactly what it may: there both kinds of wrong verdicts are most frequent.
--write puts the tables into docs/statistics.md.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import quantiles
from typing import Any

import torch
from torch import Tensor

import holdfast
from benchmarks.tables import replace_table
from holdfast.comparison.records import Run
from holdfast.comparison.regression import LEVEL, regressions
from holdfast.core import Encoder, Measure, Rng, Table, registry
from holdfast.numerics import statistics
from holdfast.numerics.statistics.planning import times_needed
from holdfast.sources.data.digits import Digits
from holdfast.sources.encoders import open_encoder
from holdfast.storage.entry import PassesEntry
from holdfast.storage.filesystem import Folder
from holdfast.storage.record import (
    SCHEMA,
    DataEntry,
    EncoderEntry,
    Environment,
    MeasureEntry,
    PlanEntry,
    Record,
    RunEntry,
    Software,
    Spent,
)

ENCODER, RADIUS, STEPS, LONG = "zoo:digits-simclr-adv", 0.1, 10, 30
"""The encoder that is audited, and the attacks on it: steps in the ball, and in search of the smallest change."""

STRENGTHS = (0.1, 0.2, 0.3, 0.4)
"""Standard deviations of the noise in each weight, in that of its tensor."""

SIZES = (25, 50, 100, 200, 400)
IMAGES, MARGIN = 100, 0.05
PER_IMAGE = ("breaking_radius", "cosine_to_self", "nearest_neighbour_accuracy")
"""Measures whose rows say all of an image, given the population."""
OF_POPULATIONS = ("universal_quantile", "breakaway_risk", "cosine_to_self", "nearest_neighbour_accuracy")

PAGE = Path(__file__).parents[1] / "docs" / "statistics.md"


@dataclass(frozen=True)
class Drawn(Run):
    """A run whose tables are given: measure -> the names of its rows, and its columns."""

    tables: Mapping[str, tuple[list[str], Table]]

    def table(self, name: str | None) -> tuple[list[str], Table]:
        """Return a table."""
        return self.tables[str(name)]


def drawn(
    place: str, measures: Mapping[str, Measure], tables: Mapping[str, tuple[list[str], Table]], images: str
) -> Drawn:
    """Return the run that would have left such tables.

    Args:
        place: its name, and that of its weights.
        measures: by their names.
        tables: by the same.
        images: the fingerprint; equal ones are paired.
    """
    entries = {}
    for name, measure in measures.items():
        found = measure.score(tables[name][1])
        scores = {title: replace(score, if_weak=measure.if_weak(title)) for title, score in found.items()}
        entries[name] = MeasureEntry(
            part=registry.spec(measure), title=measure.title, better=measure.better, unit=measure.unit,
            headline=list(scores)[-1], scores=scores, table=name,
        )  # fmt: skip
    nothing = PassesEntry(forward=0, backward=0)
    encoder = EncoderEntry(
        name="net", fingerprint=place, measures=entries, parameters=0, input=[1, 8, 8], dim=1,
        passes=Spent(forward=0, backward=0, alone=nothing, predicted=nothing, measures=nothing, shared_fraction=0.0),
    )  # fmt: skip
    count = max(len(ids) for ids, _ in tables.values())
    data = DataEntry(
        spec="digits", fingerprint=images, images=count, attacked=count, available=count, description="", skipped=[],
        balls=[], table="",
    )  # fmt: skip
    record = Record(
        schema=SCHEMA, holdfast=Software(version="", git=None), data=data, encoders=[encoder], comparison={},
        plan=PlanEntry(seed=0, measures=[], command="", profile=None, device="cpu", batch_size=None),
        environment=Environment(python="", torch="", platform="", packages={}), failures=[],
        run=RunEntry(started="", finished="", seconds=0.0, resumed_shards=0),
    )  # fmt: skip
    return Drawn(place, Folder("."), record, tables)


def noisy(strength: float, seed: int = 0) -> Encoder:
    """Return the encoder with noise in its weights."""
    encoder, random = open_encoder(ENCODER), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.add_(strength * weight.std() * torch.randn(weight.shape, generator=random))
    return encoder


@dataclass(frozen=True)
class Audited:
    """What an audit of one encoder left: its measures, and their tables."""

    measures: dict[str, Measure]
    tables: dict[str, Table]
    images: int


def audited(encoder: Encoder, images: int, folder: str) -> Audited:
    """Audit an encoder, all images attacked; a folder that holds the audit already is read."""
    record = holdfast.audit(
        {"net": encoder}, "digits", images=images, attacked=images, out=folder, measures=PER_IMAGE, budget="none",
        examined=2, queries=1, quiet=True,
        settings={"*.attack.steps": STEPS, "breaking_radius.steps": LONG, "nearest_neighbour_accuracy.passes": LONG},
    )  # fmt: skip
    entries = record.data["encoders"][0]["measures"]
    measures = {name: registry.build(entry["part"]) for name, entry in entries.items()}
    tables = {name: record.run.table(entry["table"])[1] for name, entry in entries.items()}
    return Audited(measures, tables, images)


def exchanged(first: Table, second: Table, rows: Tensor, coin: Tensor) -> tuple[Table, Table]:
    """Return rows of two tables, which trade places where the coin says so."""

    def pick(one: Tensor, other: Tensor) -> Tensor:
        return torch.where(coin, one[rows], other[rows])

    return {k: pick(first[k], second[k]) for k in first}, {k: pick(second[k], first[k]) for k in first}


def lowered(measure: Measure, table: Table, mean: float, random: torch.Generator) -> Table:
    """Return a table whose score is lower by the margin exactly: 5 points of a share, 5 % of all else.

    Args:
        measure: whose headline it is.
        table: the table.
        mean: of its column, over all that rows are drawn from.
        random: which of the rows that hold fail.
    """
    column = table[measure.column]
    fails = torch.rand(len(column), generator=random) < MARGIN / mean
    less = torch.where(fails, 0.0, column) if measure.unit == "share" else (1 - MARGIN) * column
    return {**table, measure.column: less}


Draw = Callable[[torch.Generator], tuple[Run, Run]]


def shares(draw: Draw, drops: Sequence[str], runs: int) -> dict[str, float]:
    """Return how often a gate has each verdict on any measure: the seed is the draw's."""
    random, counts = torch.Generator().manual_seed(0), {"worse": 0, "no worse": 0, "cannot tell": 0}
    for _ in range(runs):
        verdicts = {row.verdict for row in regressions(*draw(random), drops).verdicts}
        counts["worse"] += "worse" in verdicts
        counts["no worse"] += bool(verdicts & {"no worse", "better"})
        counts["cannot tell"] += "cannot tell" in verdicts
    return {verdict: count / runs for verdict, count in counts.items()}


def exchanging(first: Audited, second: Audited, images: int, lower: bool = False) -> Draw:
    """Return draws of two encoders that are equal in law, or of which the new one loses just the margin."""

    def draw(random: torch.Generator) -> tuple[Run, Run]:
        rows = torch.randint(first.images, (images,), generator=random)
        coin = torch.rand(images, generator=random) < 0.5
        ids = [str(place) for place in range(images)]
        now, before = {}, {}
        for name, measure in first.measures.items():
            both = first.tables[name], second.tables[name]
            new, old = exchanged(*both, rows, coin)
            if lower:
                mean = float(torch.cat([table[measure.column] for table in both]).mean())
                new = lowered(measure, new, mean, random)
            now[name], before[name] = (ids, new), (ids, old)
        return drawn("now", first.measures, now, "same"), drawn("before", first.measures, before, "same")

    return draw


class Sample:
    """Some images that an encoder saw, as measures read from them."""

    seed = 0

    def __init__(self, clean: Tensor, attacked: Tensor):
        self.clean, self.moved = clean, attacked
        self.population = self.attacked = len(clean)

    def read(self, observation: Any) -> dict[str, Tensor]:
        """Return representations, clean or attacked."""
        return {"reps": self.clean, f"reps@{STEPS}": self.moved}


def represented(seeds: Sequence[int]) -> tuple[Tensor, list[Tensor]]:
    """Return the representations of all digits, and of what attacks from several starts make of them."""
    source, encoder = Digits("all"), open_encoder(ENCODER)
    images = torch.stack([source.load(place) for place in range(len(source))])
    with torch.no_grad():
        clean = encoder(images)
    attack = registry.part("attacks", "pgd", steps=STEPS)
    ball, goal = (
        registry.part("threats", "linf", radius=RADIUS),
        registry.part("objectives", "untargeted").pursue(encoder, clean),
    )
    ids = tuple(str(place) for place in range(len(images)))
    moved = [attack(goal, images, ball, Rng(seed, ids=ids), (STEPS,)).reps[STEPS] for seed in seeds]
    return clean.double(), [reps.double().detach() for reps in moved]


def resampled(same_images: bool, images: int) -> Draw:
    """Return draws of one encoder, attacked from two starts, on the same images or on others."""
    attack = {"name": "pgd", "steps": STEPS}
    spec = {"attack": attack, "ball": {"name": "linf", "radius": RADIUS}, "readouts": [STEPS]}
    drift = {"nearest_neighbour_accuracy": {"pursue": "drift"}}
    measures = {
        name: registry.build({"kind": "measures", "name": name, **spec, **drift.get(name, {})})
        for name in OF_POPULATIONS
    }
    clean, moved = represented((0, 1))

    def draw(random: torch.Generator) -> tuple[Run, Run]:
        order = torch.randperm(len(clean), generator=random)
        pair = []
        for place, reps in enumerate(moved):
            rows = order[:images] if same_images or not place else order[images : 2 * images]
            sample: Any = Sample(clean[rows], reps[rows])
            ids = [str(row) for row in rows.tolist()]
            tables = {name: (ids, measure.observe(sample)) for name, measure in measures.items()}
            pair.append(drawn(f"run {place}", measures, tables, "same" if same_images else str(place)))
        return pair[0], pair[1]

    return draw


def equal_encoders(first: Audited, second: Audited, runs: int) -> str:
    """Return how often equal encoders are called worse, and no worse, in percent of the checks."""
    rows: list[tuple[str, Draw]] = [
        ("exchanged, paired", exchanging(first, second, IMAGES)),
        ("another attack seed, paired", resampled(True, IMAGES)),
        ("other images, unpaired", resampled(False, IMAGES)),
    ]
    lines = ["| equal encoders, 100 images | allowed drop | worse | no worse, or better |", "|---|---|---|---|"]
    for name, draw in rows:
        for drops in ((), ("5%",)):
            lines.append(_line(name, drops, shares(draw, drops, runs)))
    at_margin = shares(exchanging(first, second, IMAGES, lower=True), ("5%",), runs)
    lines.append(_line("exchanged, and loses exactly the margin", ("5%",), at_margin))
    return "\n".join(lines)


def _line(name: str, drops: Sequence[str], found: Mapping[str, float]) -> str:
    line = f"| {name} | {drops[0] if drops else '0'} | {100 * found['worse']:.1f} % | {100 * found['no worse']:.1f} % |"
    print(line, file=sys.stderr, flush=True)
    return line


@dataclass(frozen=True)
class Power:
    """How a real loss is caught.

    Attributes:
        loss: of the breaking radius, as a share of the baseline's.
        caught: how often it is called worse, by the number of images.
        planned: how many images 80 % power would take, from all images.
        achieved: the power with so many.
        pilots: quartiles of what checks on 50 images say it would take, where they cannot tell.
    """

    loss: float
    caught: dict[int, float]
    planned: int | None
    achieved: float | None
    pilots: tuple[int, ...] | None


def power(now: Audited, before: Audited, runs: int, sizes: Sequence[int] = SIZES, pilot: int = 50) -> Power:
    """Return how often a loss of the breaking radius beyond 5 % is caught, and what was planned."""
    name = "breaking_radius"
    measure, new, old = before.measures[name], now.tables[name], before.tables[name]
    a, b = (list(measure.score(table).values())[-1] for table in (new, old))
    assert a.value is not None
    assert b.value is not None
    every, rho = before.images, statistics.correlation(measure.influence(new), measure.influence(old))
    scale = 1 - MARGIN
    times = times_needed(a.value - scale * b.value, a, b, rho, scale=scale, level=LEVEL)
    losing = a.value < scale * b.value
    planned = round(times * every) if times is not None and losing else None

    def draws(images: int) -> Draw:
        def draw(random: torch.Generator) -> tuple[Run, Run]:
            rows, ids = torch.randint(every, (images,), generator=random), [str(place) for place in range(images)]
            pair = ({name: (ids, {key: column[rows] for key, column in table.items()})} for table in (new, old))
            now, before = (drawn(str(i), {name: measure}, tables, "same") for i, tables in enumerate(pair))
            return now, before

        return draw

    caught = {size: shares(draws(size), ("5%",), runs)["worse"] for size in sizes}
    achieved = None if planned is None else shares(draws(planned), ("5%",), runs)["worse"]
    random, told = torch.Generator().manual_seed(1), []
    for _ in range(runs):
        (row,) = regressions(*draws(pilot)(random), ("5%",)).verdicts
        change = None if row.change is None else row.change.value
        lost = change is not None and row.margin.amount is not None and change < -row.margin.amount
        if lost and row.needed and row.needed.as_measured:
            told.append(float(row.needed.as_measured))
    pilots = tuple(round(end) for end in quantiles(told, n=4)) if len(told) > 9 else None
    return Power(1 - a.value / b.value, caught, planned, achieved, pilots)


def regressed(strengths: Mapping[float, Audited], before: Audited, runs: int) -> str:
    """Return with which power noise in the weights is caught."""
    heads = " | ".join(f"{n} images" for n in SIZES)
    lines = [
        f"| noise | loss | {heads} | planned for 80 % | caught by these | asked for by 50 images that cannot tell |",
        "|---|---|" + "---|" * (len(SIZES) + 3),
    ]
    for strength, now in strengths.items():
        found = power(now, before, runs)
        cells = " | ".join(f"{100 * share:.0f} %" for share in found.caught.values())
        planned = "–" if found.planned is None else str(found.planned)
        achieved = "–" if found.achieved is None else f"{100 * found.achieved:.0f} %"
        pilots = "–" if found.pilots is None else "{1} ({0} to {2})".format(*found.pilots)
        lines.append(f"| {strength:g} | {100 * found.loss:.0f} % | {cells} | {planned} | {achieved} | {pilots} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser("python -m benchmarks.regression", description=__doc__)
    parser.add_argument("--runs", type=int, default=400, help="draws of each kind")
    parser.add_argument("--images", type=int, default=600, help="images that are audited, from which others are drawn")
    parser.add_argument("--folder", help="where audits are kept; those that are there are read")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/statistics.md")
    options = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.folder or temporary)
        before = audited(open_encoder(ENCODER), options.images, str(folder / "baseline"))
        noise = {s: audited(noisy(s), options.images, str(folder / f"noise-{s:g}")) for s in STRENGTHS}
    tables = f"{equal_encoders(noise[0.2], before, options.runs)}\n\n{regressed(noise, before, options.runs)}"
    print(tables)
    print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr)
    if options.write:
        replace_table(PAGE, "regression", tables)


if __name__ == "__main__":
    main()
