"""How an audit's time and memory grow with its images, 10² to 10⁴ (and further: --sizes 100,1000,10000,100000).

    python -m benchmarks.images [--json] [--plot DIR] [--sizes N,N,...]

Every image is drawn when it is asked for, 8 x 8 pixels; `zoo:digits-simclr` costs so little that nothing hides behind
it. All images are attacked, towards and away from, by PGD of ten steps, and all eight attack measures are asked: three
of them compare all pairs. Each size runs in a fresh process, after an audit of 16 images that warms up; one thread,
processor time, peak memory above what was held before. Exponents are least-squares slopes of logarithms, over all sizes
as measured; over all sizes less the time for 16 images, for fixed costs hide growth; and over the last decade.
"""

import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.curve import Curve, fresh, kib
from benchmarks.result import Result, report_sizes
from benchmarks.store import Run
from benchmarks.tables import figures, markdown
from holdfast.auditing.plan import Plan
from holdfast.auditing.run import run_audit
from holdfast.core import ImageSource, Measure
from holdfast.core.registry import part_name
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.measures.drift.cosine_to_self import CosineToSelf
from holdfast.parts.measures.drift.cosine_to_target import CosineToTarget
from holdfast.parts.measures.drift.relative_quantile import RelativeQuantile
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.measures.neighbours.adversarial_margin import AdversarialMargin
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.measures.neighbours.nearest_neighbour_accuracy import NearestNeighbourAccuracy
from holdfast.parts.measures.neighbours.overlap_risk import OverlapRisk
from holdfast.parts.threats.linf import Linf
from holdfast.storage.record import EncoderEntry

TARGET = 1.05
SIZES = (100, 316, 1000, 3162, 10_000)
FEW = 16
ENCODER = "zoo:digits-simclr"
STEPS, RADIUS = 10, 0.1
PER_IMAGE = (CosineToSelf, RelativeQuantile, CosineToTarget, OverlapRisk, AdversarialMargin)
ALL_PAIRS = (UniversalQuantile, BreakawayRisk, NearestNeighbourAccuracy)
GROWTH = 64
"""MiB that memory may grow beyond the representations, from the middle size to the last."""


class Drawn(ImageSource):
    """So many images, each drawn from its number when it is asked for; counts how often."""

    def __init__(self, count: int, side: int = 8):
        self.count, self.side, self.loads = count, side, 0

    def __len__(self) -> int:
        return self.count

    def __str__(self) -> str:
        return f"{self.count} drawn images"

    def id(self, index: int) -> str:
        """Return its number."""
        return f"{index:07d}"

    def load(self, index: int) -> Tensor:
        """Return uniform pixels of one channel."""
        self.loads += 1
        return torch.rand(1, self.side, self.side, generator=torch.Generator().manual_seed(index))


@dataclass(frozen=True)
class Cost:
    """What an audit took.

    Attributes:
        seconds: processor time of one audit.
        few: of one of `FEW` images before it.
        pairs: time on the wall of the measures that compare all pairs.
        memory: peak above what was held after that one, in MiB.
        representations: clean and attacked ones in float32 and, as measures hold them, in float64, in MiB.
    """

    seconds: float
    few: float
    pairs: float
    memory: float
    representations: float


def questions() -> tuple[Measure, ...]:
    """Return the eight attack measures, none with a search of its own: one on events compares with all in each pass."""
    asked = (measure(Pgd(STEPS), Linf(RADIUS)) for measure in (*PER_IMAGE, *ALL_PAIRS))
    return tuple(replace(m, pursue="drift") if isinstance(m, NearestNeighbourAccuracy) else m for m in asked)


def audit(images: int) -> Cost:
    """Audit so many images, after a few; run in a fresh process."""
    torch.set_num_threads(1)
    _seconds(FEW)  # what is imported on the way is not counted
    few, _ = _seconds(FEW)
    held = kib("VmRSS")
    seconds, entry = _seconds(images)
    numbers = 5 * images * (entry.dim or 0)  # clean, and two attacks that are read after 5 and 10 steps
    pairs = sum(entry.measures[part_name(measure)].seconds for measure in ALL_PAIRS)
    return Cost(seconds, few, pairs, (kib("VmHWM") - held) / 1024, numbers * (4 + 8) / 2**20)


def _seconds(images: int) -> tuple[float, EncoderEntry]:
    plan = Plan((ENCODER,), "drawn", questions(), images=images)
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        record = run_audit(plan, Path(folder), source=Drawn(images))
        spent = time.process_time() - began
    if record.failures:
        raise RuntimeError(f"the audit failed: {record.failures}")
    return spent, record.encoders[0]


def measure(sizes: tuple[int, ...] = SIZES) -> list[Result]:
    """Return the exponents of time, and how memory grows.

    Args:
        sizes: numbers of images, rising; two or more.
    """
    costs = [fresh(audit, size) for size in sizes]
    fixed = min(cost.few for cost in costs)
    spent = Curve("audit time", "images", "processor seconds", sizes, tuple(cost.seconds for cost in costs))
    grown = replace(spent, values=tuple(max(seconds - fixed, 1e-3) for seconds in spent.values))
    last = [place for place, size in enumerate(sizes) if size * 10 >= sizes[-1]]
    decade = replace(spent, sizes=sizes[last[0] :], values=spent.values[last[0] :])
    pairs = Curve("audit, all pairs", "images", "seconds on the wall", sizes, tuple(max(c.pairs, 1e-3) for c in costs))
    peak = Curve("audit peak memory", "images", "MiB", sizes, tuple(cost.memory for cost in costs))
    beyond, middle = [cost.memory - cost.representations for cost in costs], len(sizes) // 2
    between = f"{sizes[middle]:,} to {sizes[-1]:,}"
    held = f"{peak.text()} MiB; representations {costs[-1].representations:.0f} MiB at the last size"
    return [
        Result("images, exponent of time", spent.exponent(), None, "", TARGET, f"{spent.text()} s", spent),
        Result(
            "images, less fixed costs",
            grown.exponent(),
            None,
            "",
            TARGET,
            f"{fixed:.2f} s are fixed",
            facts={"fixed": fixed},
        ),
        Result("images, last decade", decade.exponent(), None, "", None, "with all pairs; a real encoder hides them"),
        Result("images, all pairs alone", pairs.exponent(), None, "", None, f"{pairs.text()} s on the wall", pairs),
        Result(
            f"images, memory beyond representations, {between}",
            beyond[-1] - beyond[middle],
            None,
            "MiB",
            GROWTH,
            held,
            peak,
            facts={"representations": costs[-1].representations},
        ),
    ]


def table(run: Run) -> str:
    """Return time and memory by size, with their exponents."""
    time, less, last, memory = map(
        run.of, ("images, exponent of time", "images, less fixed", "images, last decade", "images, memory beyond")
    )
    seconds, held = run.curve(time.name), run.curve(memory.name)
    heads = [f"n images (8 x 8, `{ENCODER}`, all attacked, eight measures)", *map(figures, seconds.sizes), ""]
    exponents = (
        f"exponent {time.value:.2f}; {less.value:.2f} less the fixed {less.facts['fixed']:.2f} s; "
        f"{last.value:.2f} over the last decade"
    )
    parts = (
        f"of which representations {memory.facts['representations']:.0f} MiB at the last; beyond these "
        f"{memory.value:.0f} MiB more than at the middle one"
    )
    rows = [
        ["processor seconds", *map(figures, seconds.values), exponents],
        ["peak memory above the start, MiB", *(f"{value:.0f}" for value in held.values), parts],
    ]
    return markdown(heads, rows)


if __name__ == "__main__":
    report_sizes(measure, SIZES, __doc__)
