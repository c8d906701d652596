"""How the computations beside the encoder grow with the width of representations, D from 128 to 4,096.

    python -m benchmarks.dimensions [--json] [--plot DIR]

The exact order of all pairs of 2,000 images, the nearest clean ones of 2,000 attacked images, and the 20 nearest of a
bank of 10,000 for 2,000 queries. Random representations, one thread, processor time, the best of some rounds; memory
above the bank in a fresh process. The exponent is the slope of logarithms; the work is linear in D beside what each
pair costs whatever D is, so it is below 1.
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.curve import Curve, fresh, kib
from benchmarks.result import Result, report
from benchmarks.store import Run
from benchmarks.tables import figures, markdown
from holdfast.numerics.geometry import pairwise, top_k
from holdfast.numerics.geometry.cache import Remembered
from holdfast.parts.divergences.l2 import L2

TARGET = 1.05
WIDTHS = (128, 256, 512, 1024, 2048, 4096)
ROWS, BANK, K, VALUES = 2000, 10_000, 20, 4000


def representations(rows: int, dim: int, seed: int = 0) -> Tensor:
    """Return random representations."""
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))


def place(rows: int, dim: int) -> Callable[[], object]:
    """Return how values are placed among the distances of all pairs."""
    bank = representations(rows, dim)
    values = torch.linspace(0.8, 1.2, VALUES, dtype=torch.float64) * torch.dist(bank[0], bank[1]).double()
    return lambda: pairwise.share_below(bank, values, L2())


def break_away(rows: int, dim: int) -> Callable[[], object]:
    """Return how the clean images that are nearer to an attacked one are counted."""
    bank = representations(rows, dim)
    attacked = bank + 0.3 * bank.roll(1, 0)
    return lambda: pairwise.closer(attacked, bank, torch.arange(rows), L2())


def look_up(rows: int, dim: int) -> Callable[[], object]:
    """Return how the nearest of a bank five times as large are found."""
    queries, bank = representations(rows, dim), representations(rows * BANK // ROWS, dim, 1)
    return lambda: top_k.top(queries, [bank], min(K, len(bank)))


CASES: dict[str, Callable[[int, int], Callable[[], object]]] = {
    "all pairs in order": place,
    "nearer than the original": break_away,
    "nearest of a bank": look_up,
}


def seconds(case: str, rows: int, dim: int, rounds: int) -> float:
    """Return the best processor time of some rounds, nothing remembered between them."""
    call, best = CASES[case](rows, dim), float("inf")
    for _ in range(rounds):
        pairwise._CLOSER, pairwise._PLACED = Remembered(1), Remembered(1)
        began = time.process_time()
        call()
        best = min(best, time.process_time() - began)
    return best


def peak(case: str, rows: int, dim: int) -> float:
    """Return the peak memory above what was held before the call, in MiB; run in a fresh process."""
    torch.set_num_threads(1)
    CASES[case](10, 8)()
    call = CASES[case](rows, dim)
    held = kib("VmRSS")
    call()
    return (kib("VmHWM") - held) / 1024


def measure(widths: tuple[int, ...] = WIDTHS, rows: int = ROWS, rounds: int = 3) -> list[Result]:
    """Return the exponent of time over D, for every computation, and the memory of the widest.

    Args:
        widths: D, rising.
        rows: images that are compared with each other.
        rounds: of which the best counts.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        results = []
        for case in CASES:
            times = tuple(seconds(case, rows, dim, rounds) for dim in widths)
            curve = Curve(f"{case}, time by D", "dimensions", "processor seconds", widths, times)
            memory = fresh(peak, case, rows, widths[-1])
            note = f"{curve.text()} s; {memory:.0f} MiB above the bank at the last"
            name, facts = f"D, {case}, exponent", {"MiB": memory}
            results.append(Result(name, curve.exponent(), None, "", TARGET, note, curve, facts=facts))
        return results
    finally:
        torch.set_num_threads(threads)


def table(run: Run) -> str:
    """Return time by width, exponents and memory."""
    sizes = {"all pairs in order": "", "nearer than the original": f" x {ROWS:,}", "nearest of a bank": f" x {BANK:,}"}
    widths = run.curve("D, all pairs").sizes
    rows = []
    for case, others in sizes.items():
        row, curve = run.of(f"D, {case}"), run.curve(f"D, {case}")
        exponent, memory = f"{row.value:.2f}", f"{row.facts['MiB']:.0f}"
        rows.append([f"{case}, {ROWS:,}{others}, s", *map(figures, curve.values), exponent, memory])
    return markdown(["D", *map(figures, widths), "exponent", "MiB above the bank"], rows)


if __name__ == "__main__":
    report(measure, __doc__)
