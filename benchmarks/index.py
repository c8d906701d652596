"""What it takes to choose 1,000 of a million images: time, memory, and how many of them are read.

    python -m benchmarks.index [--json] [--plot DIR]

The source counts how often it is asked for an image. Choosing is what `ImageSet` does when it is opened; the
fingerprint then reads the chosen images. Each size in a fresh process; processor time.
"""

import time
from dataclasses import dataclass

from benchmarks.curve import Curve, fresh, kib
from benchmarks.images import Drawn
from benchmarks.result import Result, report
from benchmarks.store import Run
from benchmarks.tables import figures, markdown
from holdfast.sources.data import ImageSet

SIZES = (10_000, 100_000, 1_000_000)
CHOSEN = 1000
BYTES = 64
"""Bytes of memory that an image which is not chosen may cost: no more than a word or two of bookkeeping."""


@dataclass(frozen=True)
class Opened:
    """What opening took: processor seconds, peak memory above what was held in MiB, images read before and after."""

    seconds: float
    memory: float
    before: int
    after: int


def choose(available: int, chosen: int) -> Opened:
    """Choose images, then read the chosen ones; run in a fresh process."""
    ImageSet(Drawn(100), images=10)  # what is imported on the way is not counted
    source, held, began = Drawn(available), kib("VmRSS"), time.process_time()
    images = ImageSet(source, images=chosen)
    ids = images.ids
    spent, peak, before = time.process_time() - began, kib("VmHWM") - held, source.loads
    if len(ids) != chosen or len(images.fingerprint) != 64:
        raise RuntimeError(f"expected {chosen} images, got {len(ids)}")
    return Opened(spent, peak / 1024, before, source.loads)


def measure(sizes: tuple[int, ...] = SIZES, chosen: int = CHOSEN) -> list[Result]:
    """Return images read beyond those chosen, time and memory of opening the largest index."""
    found = [fresh(choose, size, chosen) for size in sizes]
    name, last = f"index of {sizes[-1]:,}", found[-1]
    seconds = Curve("time to open an index", "images", "processor seconds", sizes, tuple(f.seconds for f in found))
    memory = Curve("memory of an index", "images", "MiB", sizes, tuple(max(f.memory, 1e-3) for f in found))
    each = last.memory * 2**20 / sizes[-1]
    return [
        Result(f"{name}, images read on opening", float(last.before), None, "", 0.0, "counted by the source"),
        Result(f"{name}, read beyond the {chosen:,} chosen", float(last.after - chosen), None, "", 0.0, "fingerprint"),
        Result(f"{name}, time to open", last.seconds, None, "s", None, f"{seconds.text()} s", seconds),
        Result(f"{name}, peak memory", each, None, "B", BYTES, f"an image; {memory.text()} MiB", memory),
    ]


def table(run: Run) -> str:
    """Return time and memory by size, and how many images are read at the last."""
    name = f"index of {SIZES[-1]:,}"
    time, memory = run.curve(f"{name}, time"), run.curve(f"{name}, peak memory")
    each = run.of(f"{name}, peak memory").value
    before, beyond = run.of(f"{name}, images read"), run.of(f"{name}, read beyond")
    rows = [
        ["processor seconds to open", *map(figures, time.values), ""],
        ["memory, MiB", *map(figures, memory.values), f"{figures(each)} bytes an image at the last"],
    ]
    read = f"At the last {before.value:.0f} images are read on opening, and {beyond.value:.0f} beyond those chosen."
    heads = [f"index of n images, {CHOSEN:,} chosen", *map(figures, time.sizes), ""]
    return f"{markdown(heads, rows)}\n\n{read}"


if __name__ == "__main__":
    report(measure, __doc__)
