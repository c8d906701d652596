"""All pairs of 10,000 representations of 2,048 features, in less than 2 GiB above the bank itself."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import torch
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.geometry.nearest import nearest
from holdfast.parts.divergences.l2 import L2

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

torch.set_num_threads(2)
kind, task = sys.argv[1:]
generator = torch.Generator().manual_seed(0)
bank = torch.randn(10_000, 2048, generator=generator)
if kind == "near":  # half of the bank is doubtful: duplicates in groups of 100
    bank[:5000] = bank[:50].repeat(100, 1)
queries = bank[:1000] + 0.1 * torch.randn(1000, 2048, generator=generator)
before = peak()
if task == "closer":
    pairwise.closer(queries, bank, torch.arange(1000), L2())
elif task == "share_below":
    pairwise.share_below(bank, torch.linspace(50, 70, 1000), L2())
else:
    nearest(queries, bank, 8, L2())
print(before, peak())
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["random", "near"])
@pytest.mark.parametrize("task", ["closer", "share_below", "nearest"])
def test_memory_above_the_bank(task, kind) -> None:
    found = subprocess.run([sys.executable, "-c", PROGRAM, kind, task], capture_output=True, text=True, check=True)
    before, after = map(int, found.stdout.split())
    assert before > 10_000 * 2048 * 4
    assert after - before < 2 * 2**30
    print(f"{task} {kind}: {(after - before) / 2**20:.0f} MiB above the bank")
