"""The same work by Holdfast and by other libraries: same weights, same images, same machine. Time, and agreement.

    python -m benchmarks --only libraries [--write]

Each file has one kind of work. A library that is not installed is said and left out; `benchmarks/README.md` says how
to install those that are not in the extra `bench`. One thread, processor time, in turns.
"""

import sys
import warnings

import torch

from benchmarks.libraries import attacks, bounds, corruptions, neighbours, views
from benchmarks.libraries.work import compare
from benchmarks.result import Result
from benchmarks.store import Run
from benchmarks.tables import figures, markdown, with_ends
from holdfast.runtime.torchvision_guard import guard_torchvision

WORKS = {**attacks.WORKS, **bounds.WORKS, **corruptions.WORKS, **views.WORKS, **neighbours.WORKS}
"""Name of a work -> what makes it, where its library is installed."""


def measure(rounds: int = 3) -> list[Result]:
    """Return, for each library and work, our time over its time, and how far the results are apart.

    Args:
        rounds: of both in turns, after one that warms up.
    """
    guard_torchvision()  # libraries import it
    threads, results = torch.get_num_threads(), []
    torch.set_num_threads(1)
    try:
        for name, make in WORKS.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of other libraries
                    results += compare(make(), rounds)
            except ImportError as error:
                print(f"{name} skipped: {error}", file=sys.stderr)
        return results
    finally:
        torch.set_num_threads(threads)


def table(run: Run) -> str:
    """Return time and agreement of each work."""
    rows = []
    for ratio, apart in zip(run.results[::2], run.results[1::2], strict=True):
        library = f"{ratio.facts['library']} {ratio.facts['version']}"
        verdict = f"≤ {figures(apart.target)}, {'met' if apart.met else '**not met**'}" if apart.target else ""
        far = f"{figures(apart.value)} {apart.unit}".strip()
        rows.append([library, ratio.facts["what"], with_ends(ratio), apart.facts["what"], far, verdict])
    heads = ["library", "work", "our time / its time (lowest to highest)", "agreement", "", "allowed"]
    return markdown(heads, rows)
