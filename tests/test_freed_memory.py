"""Freed memory is kept: the next step takes no pages from the system. At the end of a stage it is given back."""

import os
import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import torch
from holdfast.runtime.freed_memory import keep_freed_memory

print(keep_freed_memory() if sys.argv[1] == "keep" else False)
for number in range(60):
    if number == 20:  # the first ones take the pages
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    first, second = torch.ones(2**23), torch.ones(2**20)  # 32 and 4 MiB
    del first, second
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")


def faults(mode: str, **environment: str) -> tuple[str, int]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", FAULTS, mode]
    ended = subprocess.run(command, env=own | environment, capture_output=True, text=True, check=True)
    kept, count = ended.stdout.split()
    return kept, int(count)


@glibc
@pytest.mark.slow
def test_the_next_step_takes_no_pages_from_the_system() -> None:
    (given, many), (kept, few) = faults("as it is"), faults("keep")
    assert (given, kept) == ("False", "True")
    assert few < many / 10


@pytest.mark.slow
@glibc
def test_what_the_environment_says_stays() -> None:
    assert faults("keep", MALLOC_TRIM_THRESHOLD_="131072")[0] == "False"


HOLES = """
import sys
import numpy as np
from holdfast.runtime.freed_memory import give_back_freed_memory, keep_freed_memory

def held():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) / 1024

keep_freed_memory()
arrays = [np.ones(2**17) for _ in range(64)]  # 1 MiB each
full = held()
del arrays[::2]  # holes between those that stay
holes = held()
print(give_back_freed_memory(), full - holes, holes - held())
"""


@glibc
def test_what_lies_between_is_given_back_when_asked_for() -> None:
    ended = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    given, before, after = ended.stdout.split()
    assert given == "True"
    assert float(before) < 4, "kept for the next step"
    assert 24 < float(after) < 36


@glibc
@pytest.mark.parametrize("chosen", [{}, {"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}])
def test_pyarrow_takes_its_memory_from_there_too(chosen: dict[str, str]) -> None:
    program = "from holdfast.runtime.freed_memory import keep_freed_memory as keep; keep(); import pyarrow as pa; "
    program += "print(pa.default_memory_pool().backend_name)"
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_", "ARROW_"))}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=own | chosen, capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == chosen.get("ARROW_DEFAULT_MEMORY_POOL", "system")
