"""How small a change each search finds after which an image is taken for another one, at equal passes.

    HOLDFAST_SHARED=folder python -m benchmarks.breaking_radius [--encoders A,B] [--passes 100,300] [--searches A,B]
        [--save FILE.json] [--chart FILE.svg] [--write] [--json]
    python -m benchmarks.breaking_radius --read A.json,B.json [--chart FILE.svg] [--write]   # what was saved, together

The event: another clean representation of the population is strictly nearer to f(x') than f(x) is. A pass is (forward
+ backward) / 2, for each image. Ours is the observation `breaking_radii` on a shard, as an audit runs it; foolbox gets
the event as a classifier with a class for each image of the population, see `breaking_searches`. Every radius is
verified afterwards: the event in float64 of a float32 pass, pixels in [0, 1]. Nothing is timed: load changes nothing.
Brendel & Bethge's attack needs numba (pip install numba), which `holdfast[bench]` does not bring.
"""

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, median

import numpy as np
import torch
from PIL import Image

from benchmarks import store
from benchmarks.breaking_searches import BALLS, SEARCHES, Problem
from benchmarks.result import Result
from benchmarks.store import Run
from benchmarks.tables import markdown
from holdfast.core import Encoder, Images
from holdfast.sources.data.digits import Digits
from holdfast.sources.data.shared.geometry import render
from holdfast.sources.encoders import open_encoder

BUDGETS = (100, 300)
POPULATION, ATTACKED = 256, 24
PHOTOS, PHOTOS_ATTACKED = 64, 8
CAP = 2.0
"""Log ratio that an image counts for at most, and for which an unbroken one counts."""

CIFAR = "mean=0.485,0.456,0.406&std=0.225,0.225,0.225"
SPECS = {
    "mnist_cnn_a_eps0": "file:{}/encoders/mnist_cnn_a_eps0.safetensors?mean=0&std=1",
    "mnist_cnn_a_eps0.2": "file:{}/encoders/mnist_cnn_a_eps0.2.safetensors?mean=0&std=1",
    "cifar10_cnn_b_eps0": "file:{}/encoders/cifar10_cnn_b_eps0.safetensors?" + CIFAR,
    "cifar10_cnn_b_eps4.4": "file:{}/encoders/cifar10_cnn_b_eps4.4.safetensors?" + CIFAR,
    "cifar10_resnet20_supervised": (
        "file:{}/encoders/cifar10_resnet20_supervised.safetensors?mean=0.485,0.456,0.406&std=0.229,0.224,0.225"
    ),
    "imagenet_mobilenet_v1_025": "onnx:{}/real/imagenet_mobilenet_v1_025.onnx",
}
"""Encoders with their images in the folder HOLDFAST_SHARED/data."""

DIGITS = "zoo:digits-simclr"
"""An encoder that needs no folder."""


@dataclass(frozen=True)
class Row:
    """What one search found.

    Attributes:
        encoder: the encoder.
        norm: "linf" or "l2".
        budget: passes for each image that it was given.
        search: its name.
        radii: of each image the verified radius in pixels; None where it broke nothing.
        passes: (forward + backward) / 2 that it made for each image.
        why: why it could not run; empty where it ran.
    """

    encoder: str
    norm: str
    budget: int
    search: str
    radii: tuple[float | None, ...]
    passes: float
    why: str = ""

    @property
    def median(self) -> float:
        """The median radius; inf where half of the images are not broken."""
        return median(math.inf if radius is None else radius for radius in self.radii) if self.radii else math.nan

    @property
    def unbroken(self) -> int:
        """How many images it did not break."""
        return sum(radius is None for radius in self.radii)

    def log_ratio(self, best: Sequence[float]) -> float:
        """Return the mean of ln(radius / best), at most `CAP` for an image; where nothing broke an image, 0."""
        ratios = [
            0.0 if math.isinf(least) else CAP if radius is None else min(CAP, math.log(radius / least))
            for radius, least in zip(self.radii, best, strict=True)
        ]
        return fmean(ratios)


def images_of(name: str, encoder: Encoder, folder: Path) -> tuple[Images, int]:
    """Return the population and how many of it are attacked."""
    if name == DIGITS:
        digits = Digits()
        return torch.stack([digits.load(i) for i in range(POPULATION)]), ATTACKED
    if name.startswith("mnist"):
        return torch.tensor(np.load(folder / "mnist_test.npz")["images"][:POPULATION])[:, None] / 255, ATTACKED
    if name.startswith("cifar10"):
        pictures = np.load(folder / "cifar10_lossless300.npz")["images"][:POPULATION]
        return torch.tensor(pictures).permute(0, 3, 1, 2) / 255, ATTACKED
    files = sorted((folder / "photos").iterdir())[: 2 * PHOTOS : 2]
    return torch.stack([render(Image.open(file), encoder.geometry) for file in files]), PHOTOS_ATTACKED


def run(encoder: str, budgets: Sequence[int], searches: Sequence[str], folder: Path) -> Iterable[Row]:
    """Yield what each search found, budget by budget."""
    opened = open_encoder(SPECS.get(encoder, encoder).format(folder))
    problem = Problem(opened, *images_of(encoder, opened, folder))
    for budget in budgets:
        for norm, ball in BALLS.items():
            for name in searches:
                search, norms = SEARCHES[name]
                if norm not in norms:
                    continue
                before = opened.passes + type(opened.passes)()
                try:
                    images = search(problem, norm, budget)
                except ImportError as error:
                    yield Row(encoder, norm, budget, name, (), 0.0, f"{error}"[:80])
                    continue
                passes = (opened.passes - before).total / 2 / len(problem.x)
                radii = tuple(radius if math.isfinite(radius) else None for radius in problem.radii(images, ball))
                yield Row(encoder, norm, budget, name, radii, passes)


def best(rows: Sequence[Row], encoder: str, norm: str) -> list[float]:
    """Return of each image the smallest radius that any search found with any budget."""
    columns = zip(*(row.radii for row in rows if (row.encoder, row.norm) == (encoder, norm) and row.radii), strict=True)
    return [min(math.inf if radius is None else radius for radius in column) for column in columns]


def as_results(rows: Sequence[Row]) -> list[Result]:
    """Return the median radius of every search that ran."""
    results = []
    for row in rows:
        if row.radii:
            ratio = row.log_ratio(best(rows, row.encoder, row.norm))
            note = f"ln to the best {ratio:.3f}, {row.unbroken} of {len(row.radii)} unbroken, {row.passes:.0f} passes"
            facts = {"log_ratio": ratio, "unbroken": row.unbroken}
            facts |= {key: getattr(row, key) for key in ("encoder", "norm", "budget", "search")}
            name = f"breaking radius, {row.encoder}, {row.norm}, {row.budget} passes, {row.search}"
            results.append(Result(name, row.median, None, "pixels", None, note, facts=facts))
    return results


def table(run: Run) -> str:
    """Return a table for each norm: median radius in pixels (mean log ratio to the best, unbroken images if any).

    The smallest of both are bold.
    """
    return "\n\n".join(_table([row for row in run.results if row.facts["norm"] == norm], norm) for norm in BALLS)


def _table(rows: Sequence[Result], norm: str) -> str:
    names = [name for name in SEARCHES if any(row.facts["search"] == name for row in rows)]
    lines = []
    for encoder in _encoders([row.facts["encoder"] for row in rows]):
        for budget in sorted({row.facts["budget"] for row in rows if row.facts["encoder"] == encoder}):
            where = (encoder, budget)
            ran = {row.facts["search"]: row for row in rows if (row.facts["encoder"], row.facts["budget"]) == where}
            middle = min(row.value for row in ran.values())
            ratio = min(row.facts["log_ratio"] for row in ran.values())
            cells = [_cell(ran[name], middle, ratio) if name in ran else "not run" for name in names]
            lines.append([encoder, f"{budget:,}", *cells])
    return markdown([norm, "passes", *names], lines)


def _encoders(names: Iterable[str]) -> dict[str, None]:
    """Return the encoders of some rows, those of `SPECS` first and in its order."""
    names = list(names)
    return dict.fromkeys([*(name for name in SPECS if name in names), *names])


def _cell(row: Result, middle: float, smallest: float) -> str:
    ratio, unbroken = row.facts["log_ratio"], row.facts["unbroken"]
    share = f"{_bold(f'{ratio:.3f}', ratio == smallest)}{f', {unbroken} unbroken' if unbroken else ''}"
    return f"{_bold(f'{row.value:.4g}', row.value == middle)} ({share})"


def _bold(number: str, whether: bool) -> str:
    return f"**{number}**" if whether else number


def draw(rows: Sequence[Row], file: Path) -> None:
    """Draw the median radius against passes: a panel for each encoder and norm, a line for each search."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FormatStrFormatter, MaxNLocator, NullLocator

    encoders, names = (
        _encoders(row.encoder for row in rows),
        [name for name in SEARCHES if any(row.search == name for row in rows)],
    )
    figure = Figure(figsize=(2.9 * len(encoders) + 0.6, 5.6), layout="constrained")
    panels = figure.subplots(len(BALLS), len(encoders), squeeze=False)
    for across, norm in zip(panels, BALLS, strict=True):
        for axes, encoder in zip(across, encoders, strict=True):
            for number, name in enumerate(names):
                line = sorted(
                    (row.budget, row.median)
                    for row in rows
                    if (row.encoder, row.norm, row.search) == (encoder, norm, name) and math.isfinite(row.median)
                    if row.radii
                )
                if line:
                    style = {"lw": 2.4, "zorder": 3} if number == 0 else {"lw": 1.2}
                    axes.plot(*zip(*line, strict=True), marker="o", ms=4, color=f"C{number}", label=name, **style)
            budgets = sorted({row.budget for row in rows if row.encoder == encoder})
            axes.set(xscale="log", yscale="log", title=f"{encoder}\n{norm}")
            axes.title.set_fontsize(8)
            axes.set_xticks(budgets, [f"{budget:,}" for budget in budgets])
            axes.xaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_locator(MaxNLocator(5))
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter(FormatStrFormatter("%.3g"))
            axes.tick_params(labelsize=7)
            axes.grid(alpha=0.3)
        across[0].set_ylabel(f"median radius, pixels, {norm}", fontsize=8)
    for axes in panels[-1]:
        axes.set_xlabel("passes for each image", fontsize=8)
    lines = {line.get_label(): line for axes in panels.flat for line in axes.get_lines()}
    chosen = [name for name in names if name in lines]
    figure.legend([lines[name] for name in chosen], chosen, loc="outside lower center", ncols=len(chosen), fontsize=8)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def as_json(rows: Sequence[Row]) -> str:
    """Return rows as JSON, one a line, with what the table makes of them."""
    lines = []
    for row in rows:
        found = {}
        if row.radii:
            ratio = row.log_ratio(best(rows, row.encoder, row.norm))
            middle = row.median if math.isfinite(row.median) else None
            found = {"median": middle, "log_ratio": ratio, "unbroken": row.unbroken}
        lines.append(json.dumps(asdict(row) | found))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def read(files: Iterable[Path]) -> list[Row]:
    """Return the rows of saved files; where a search was repeated, the last one."""
    entries = [entry for file in files for entry in json.loads(file.read_text(encoding="utf-8"))]
    rows = [
        Row(e["encoder"], e["norm"], e["budget"], e["search"], tuple(e["radii"]), e["passes"], e["why"])
        for e in entries
    ]
    return list({(row.encoder, row.norm, row.budget, row.search): row for row in rows}.values())


def search(
    encoders: Sequence[str] = tuple(SPECS),
    budgets: Sequence[int] = BUDGETS,
    searches: Sequence[str] = tuple(SEARCHES),
    save: Path | None = None,
) -> list[Row]:
    """Run every search on every encoder; what was found so far is saved after each.

    Raises:
        SystemExit: an encoder or a search that there is not; no data where an encoder needs some.
    """
    for names, known in ((encoders, (*SPECS, DIGITS)), (searches, tuple(SEARCHES))):
        if strange := [name for name in names if name not in known]:
            raise SystemExit(f"expected some of {', '.join(known)}; got {', '.join(strange)}")
    folder = Path(os.environ.get("HOLDFAST_SHARED", "")) / "data"
    if any(name in SPECS for name in encoders) and not (folder / "encoders").is_dir():
        raise SystemExit("no trained encoders: set the environment variable HOLDFAST_SHARED to their folder")
    threads, rows = torch.get_num_threads(), []
    torch.set_num_threads(1)
    try:
        for encoder in encoders:
            for row in run(encoder, budgets, searches, folder):
                rows.append(row)
                told = row.why or f"median {row.median:.4g}, {row.unbroken} unbroken, {row.passes:.1f} passes"
                print(f"{encoder}, {row.norm}, {row.budget}, {row.search}: {told}", file=sys.stderr, flush=True)
                if save is not None:
                    save.write_text(as_json(rows), encoding="utf-8")
    finally:
        torch.set_num_threads(threads)
    return rows


def measure(encoders: Sequence[str] = tuple(SPECS), budgets: Sequence[int] = BUDGETS) -> list[Result]:
    """Return the median radius of each search; nothing without data."""
    try:
        rows = search(encoders, budgets)
    except SystemExit as missing:
        print(f"{missing}; nothing is measured", file=sys.stderr)
        return []
    return as_results(rows)


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoders", default=",".join(SPECS), help=f"separated by commas; also {DIGITS}")
    parser.add_argument("--passes", default=",".join(map(str, BUDGETS)), help="budgets, separated by commas")
    parser.add_argument("--searches", default=",".join(SEARCHES), help="separated by commas")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write JSON here after every search")
    parser.add_argument("--read", metavar="FILES", help="search nothing; put saved files together")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="draw radius against passes, .svg or .png")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--write", action="store_true", help="keep it in measured.json; then python -m benchmarks.page")
    options = parser.parse_args()
    begun, clock = store.begun(), time.perf_counter()
    if options.read:
        rows = read(Path(file) for file in options.read.split(","))
    else:
        budgets = [int(budget) for budget in options.passes.split(",")]
        rows = search(options.encoders.split(","), budgets, options.searches.split(","), options.save)
    run = replace(begun, results=tuple(as_results(rows)), seconds=time.perf_counter() - clock)
    notes = sorted({f"{row.search} did not run: {row.why}" for row in rows if row.why})
    print(as_json(rows) if options.json else "\n\n".join([table(run), *notes]))
    if options.write:
        store.put("breaking_radius", run)
    if options.chart is not None:
        draw(rows, options.chart)


if __name__ == "__main__":
    main()
