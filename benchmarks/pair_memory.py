"""Memory and time of the exact pair computations on a bank of 10,000 x 2,048, that is 10⁸ pairs.

    python -m benchmarks.pair_memory [--json]

Peak memory above the bank itself is read in a fresh process for each case (Linux only); the time is compared, on a
bank of 4,096 in one process, with scikit-learn's blocks (a matrix product, not exact) and scipy's `pdist`.
"""

import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from scipy.spatial.distance import pdist
from sklearn.metrics import pairwise_distances_chunked
from torch import Tensor

from benchmarks.result import Result, from_rounds, report
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.geometry.cache import Remembered
from holdfast.parts.divergences.l2 import L2

TARGET_GIB = 2.0
SHORT = ("share_below / *", "share_below - *")
"""Names of what `short` measures."""
GIB = 2**30
STATUS = Path("/proc/self/status")


def bank_of(kind: str, rows: int, dim: int) -> Tensor:
    """Return representations in float64, as measures hold them.

    "spread" is Gaussian. "clusters" is 100 tight clusters, whose near pairs must be computed again: the hard case.
    """
    generator = torch.Generator().manual_seed(0)
    if kind == "spread":
        return torch.randn(rows, dim, generator=generator, dtype=torch.float64)
    centres = torch.randn(100, dim, generator=generator, dtype=torch.float64)
    noise = torch.randn(rows, dim, generator=generator, dtype=torch.float64)
    return noise.mul_(1e-3).add_(centres[torch.arange(rows) % 100])


def place(bank: Tensor) -> Tensor:
    """Place 4,000 drifts (1,000 images, four read-outs) among the distances of all pairs."""
    typical = torch.dist(bank[0], bank[1])
    return pairwise.share_below(bank, torch.linspace(0.5, 1.5, 4000, dtype=torch.float64) * typical, L2())


def break_away(bank: Tensor) -> Tensor:
    """Count, for as many attacked images as there are clean ones, the clean ones that are nearer."""
    queries = bank + 0.5 * bank.roll(1, 0)
    return pairwise.closer(queries, bank, torch.arange(len(bank)), L2())[0]


CASES: dict[str, Callable[[Tensor], Tensor]] = {"share_below": place, "closer": break_away}


def _kib(field: str) -> int:
    return next(int(line.split()[1]) for line in STATUS.read_text().splitlines() if line.startswith(f"{field}:"))


def peak(case: str, kind: str, rows: int, dim: int) -> tuple[float, float]:
    """Return peak memory above what was held before the call, in GiB, and processor seconds; run in a fresh process."""
    torch.set_num_threads(1)
    bank = bank_of(kind, rows, dim)
    held, began = _kib("VmRSS"), time.process_time()
    CASES[case](bank)
    return (_kib("VmHWM") - held) * 1024 / GIB, time.process_time() - began


def memory(rows: int = 10_000, dim: int = 2048) -> list[Result]:
    """Return the peak memory of every case."""
    if not STATUS.exists():
        print("peak memory skipped: it is read from /proc, which this system does not have", file=sys.stderr)
        return []
    results = []
    for case, kind in (("share_below", "spread"), ("closer", "spread"), ("share_below", "clusters")):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
            above, seconds = fresh.submit(peak, case, kind, rows, dim).result()
        note = f"{rows:,} x {dim:,}, bank {rows * dim * 8 / GIB:.2f} GiB, {seconds:.0f} s"
        results.append(Result(f"{case} ({kind}), memory above the bank", above, None, "GiB", TARGET_GIB, note))
    return results


def against_peers(rows: int = 4096, dim: int = 2048, rounds: int = 3) -> list[Result]:
    """Return time as a ratio of what scikit-learn and scipy take, and the difference from scipy's answer."""
    bank = bank_of("spread", rows, dim)
    array, values = bank.numpy(), torch.linspace(0.9, 1.1, 4000, dtype=torch.float64) * torch.dist(bank[0], bank[1])

    def ours() -> np.ndarray:
        pairwise._PLACED = Remembered(1)  # so that pairs are compared each time
        return pairwise.share_below(bank, values, L2()).numpy()

    def scipy_pairs() -> np.ndarray:
        return np.searchsorted(np.sort(pdist(array)), values.numpy(), side="right") / (rows * (rows - 1) / 2)

    def sklearn_blocks() -> np.ndarray:
        below = np.zeros(len(values) + 1)
        for block in pairwise_distances_chunked(array, working_memory=64):
            below += np.bincount(np.searchsorted(values.numpy(), block.ravel()), minlength=len(below))
        return below.cumsum()[:-1]

    times: dict[str, list[float]] = {"scikit-learn blocks": [], "scipy pdist": []}
    peers = dict(zip(times, (sklearn_blocks, scipy_pairs), strict=True))
    for _ in range(rounds):
        for name, peer in peers.items():
            times[name].append(_seconds(ours) / _seconds(peer))
    difference = float(np.abs(ours() - scipy_pairs()).max())
    note = f"{rows:,} x {dim:,}, {rounds} rounds A B A B"
    results = [from_rounds(f"share_below / {name}", ratios, None, note) for name, ratios in times.items()]
    return [*results, Result("share_below - scipy pdist", difference, None, "", 0.0, "largest over 4,000 values")]


def _seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def measure() -> list[Result]:
    """Return memory and time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return memory() + against_peers()
    finally:
        torch.set_num_threads(threads)


def short() -> list[Result]:
    """Return the times beside the peers, of one round, and the difference from scipy's answer."""
    return against_peers(rounds=1)


if __name__ == "__main__":
    report(measure, __doc__)
