"""Time of the exact 200 nearest of 50,000 x 512 for 10,000 queries, as a ratio of the bare matrix product.

    python -m benchmarks.knn [--json]

Two floors, both `queries @ bank.T` of unit vectors in float32 and in the same run: the product in blocks that stay in
the processor's cache (the same as ours, so the ratio is what finding the nearest adds), and the whole product at once,
which also writes 2 GB of memory. On one thread processor time is compared. On two it is the time on the wall, where
threads wait for each other as soon as anybody else wants a core; there the best round counts.
"""

import os
import time
from collections.abc import Callable, Iterator

import torch
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from benchmarks.result import Result, from_rounds, report
from holdfast.numerics.geometry import top_k
from holdfast.numerics.geometry.directions import unit

TARGET = 2.0
SHORT = ("nearest of a bank / product in blocks, 1 thread", "nearest of a bank / whole product, 1 thread")
"""Names of what `short` measures."""
QUERIES, BANK, DIM, K, CHUNK = 10_000, 50_000, 512, 200, 10_000


def representations(rows: int, dim: int, seed: int) -> Tensor:
    """Return random representations."""
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))


def in_blocks(queries: Tensor, bank: Tensor) -> None:
    """Compute every cosine and keep none."""
    for members in bank.split(top_k.COLUMNS):
        for part in queries.split(top_k.ROWS):
            torch.mm(part, members.T)


def ratios(threads: int, rounds: int, peers: bool) -> Iterator[Result]:
    """Yield our time as a ratio of the floors' and, where `peers`, of scikit-learn's."""
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter

    def seconds(call: Callable[[], object]) -> float:
        began = clock()
        call()
        return clock() - began

    queries, bank = representations(QUERIES, DIM, 0), representations(BANK, DIM, 1)
    near, far = unit(queries), unit(bank)
    floors: dict[str, Callable[[], object]] = {
        "product in blocks": lambda: in_blocks(near, far),
        "whole product": lambda: near @ far.T,
    }
    ours, spent = [], {name: [] for name in floors}
    for _ in range(rounds):
        for name, floor in floors.items():
            spent[name].append(seconds(floor))
        ours.append(seconds(lambda: top_k.top(queries, bank.split(CHUNK), K)))
    note = f"{QUERIES:,} x {BANK:,} x {DIM}, k {K}, {rounds} rounds A B C A B C"
    where = f"{threads} thread{'s' if threads > 1 else ''}"
    for name, times in spent.items():
        values = [own / floor for own, floor in zip(ours, times, strict=True)]
        counted = values if threads == 1 else [min(values)]
        yield from_rounds(f"nearest of a bank / {name}, {where}", counted, TARGET, f"{note}; {min(times):.1f} s")
    if peers:
        few = QUERIES // 10
        peer = NearestNeighbors(n_neighbors=K, algorithm="brute", n_jobs=1).fit(far.numpy())
        theirs = seconds(lambda: peer.kneighbors(near[:few].numpy()))
        own = seconds(lambda: top_k.top(queries[:few], bank.split(CHUNK), K))
        yield Result(f"nearest of a bank / scikit-learn, {where}", own / theirs, None, "x", None, f"{few:,} queries")


def measure() -> list[Result]:
    """Return the ratios on one thread, and on two where the machine has them."""
    before = torch.get_num_threads()
    try:
        results = list(ratios(1, 3, peers=True))
        if (os.cpu_count() or 1) > 1:
            results += ratios(2, 3, peers=False)
        return results
    finally:
        torch.set_num_threads(before)


def short() -> list[Result]:
    """Return the ratios to the products on one thread, of one round."""
    return list(ratios(1, 1, peers=False))


if __name__ == "__main__":
    report(measure, __doc__)
