"""How an audit grows where neither the encoder nor pairs of images cost anything: 10³ to 10⁶ images.

    python -m benchmarks.scale [--json] [--plot DIR] [--sizes N,N,...]

One linear map of 8 x 8 pixels is the encoder, so what is measured is all that is done beside it: images are chosen,
read, compared with each other for near-duplicates, attacked by two steps, stored shard by shard, joined and scored by
two measures of which neither compares all pairs; `benchmarks.images` has those that do, and the pictures of what went
farthest, which place drifts among pairs of images (attacks towards a target leave none). Each size runs in a fresh
process, after audits of 16 images that warm up; one thread, processor time, peak memory above what was held before.
"""

import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from benchmarks.curve import Curve, fresh, kib
from benchmarks.images import Drawn
from benchmarks.result import Result, report_sizes
from benchmarks.store import Run
from benchmarks.tables import figures, markdown
from holdfast.auditing.plan import Plan
from holdfast.auditing.run import run_audit
from holdfast.core import Encoder
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.measures.drift.cosine_to_target import CosineToTarget
from holdfast.parts.measures.feature_space.effective_rank import EffectiveRank
from holdfast.parts.threats.linf import Linf

TARGET = 1.03
GROWTH = 64
"""MiB that memory may grow beyond the representations, from the first size to the last."""

SIZES = (1000, 3162, 10_000, 31_623, 100_000, 316_228, 1_000_000)
FEW, STEPS, DIM = 16, 2, 32
NAME = "a linear map"
MEMORY, EACH = "scale, memory beyond representations", "scale, of these an image"


@dataclass(frozen=True)
class Cost:
    """Processor seconds of an audit, of one of `FEW` images before it, and MiB: the peak, and of representations."""

    seconds: float
    few: float
    memory: float
    representations: float


def encoder() -> Encoder:
    """Return a linear map of 64 pixels, the same in every process."""
    linear = nn.Linear(64, DIM)
    with torch.no_grad():
        linear.weight.copy_(torch.randn(DIM, 64, generator=torch.Generator().manual_seed(0)))
        linear.bias.zero_()
    return Encoder(nn.Sequential(nn.Flatten(), linear), mean=0, std=1, name=NAME)


def seconds(images: int) -> float:
    """Return the processor time of an audit of so many images."""
    plan = Plan((NAME,), "drawn", (CosineToTarget(Pgd(STEPS), Linf(0.1)), EffectiveRank()), images=images, checks=())
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        record = run_audit(plan, Path(folder), source=Drawn(images), encoders={NAME: encoder()})
        spent = time.process_time() - began
    if record.failures:
        raise RuntimeError(f"the audit failed: {record.failures}")
    return spent


def audit(images: int) -> Cost:
    """Audit so many images, after a few; run in a fresh process."""
    torch.set_num_threads(1)
    seconds(FEW)  # what is imported on the way is not counted
    few, held = seconds(FEW), kib("VmRSS")
    spent = seconds(images)
    stored = 2 * images * DIM * 4 / 2**20  # clean and attacked, in float32
    return Cost(spent, few, (kib("VmHWM") - held) / 1024, stored)


def measure(sizes: tuple[int, ...] = SIZES) -> list[Result]:
    """Return how time and memory grow.

    Args:
        sizes: numbers of images, rising; two or more.
    """
    costs = [fresh(audit, size) for size in sizes]
    fixed = min(cost.few for cost in costs)
    spent = Curve("time at scale", "images", "processor seconds", sizes, tuple(cost.seconds for cost in costs))
    grown = replace(spent, values=tuple(max(value - fixed, 1e-3) for value in spent.values))
    peak = Curve("peak memory at scale", "images", "MiB", sizes, tuple(max(cost.memory, 1e-3) for cost in costs))
    beyond = [cost.memory - cost.representations for cost in costs]
    each = (beyond[-1] - beyond[0]) * 2**20 / (sizes[-1] - sizes[0])
    last = replace(grown, sizes=sizes[-2:], values=grown.values[-2:])
    took, held = f"{spent.text()} s, of which {fixed:.2f} are fixed", f"{peak.text()} MiB"
    return [
        Result("scale, exponent of time", grown.exponent(), None, "", TARGET, took, spent),
        Result("scale, exponent of its last step", last.exponent(), None, "", None, last.text()),
        Result(MEMORY, beyond[-1] - beyond[0], None, "MiB", GROWTH, held, peak),
        Result(EACH, each, None, "B", None, f"{sizes[0]:,} to {sizes[-1]:,} images"),
    ]


def table(run: Run) -> str:
    """Return time and memory by size, with their exponents."""
    time, last, beyond, each = map(run.of, ("scale, exponent of time", "scale, exponent of its last", MEMORY, EACH))
    seconds, held = run.curve(time.name), run.curve(beyond.name)
    rows = [
        ["processor seconds", *map(figures, seconds.values),
         f"exponent {time.value:.2f} less the fixed part; {last.value:.2f} over the last step"],
        ["peak memory above the start, MiB", *map(figures, held.values),
         f"{beyond.value:.0f} MiB beyond representations, {each.value:,.0f} bytes an image"],
    ]  # fmt: skip
    return markdown(["n images (a free encoder, two measures)", *map(figures, seconds.sizes), ""], rows)


if __name__ == "__main__":
    report_sizes(measure, SIZES, __doc__)
