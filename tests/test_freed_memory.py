"""Freed memory is kept: the next step takes no pages from the system."""

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
def test_the_next_step_takes_no_pages_from_the_system() -> None:
    (given, many), (kept, few) = faults("as it is"), faults("keep")
    assert (given, kept) == ("False", "True")
    assert few < many / 10


@glibc
def test_what_the_environment_says_stays() -> None:
    assert faults("keep", MALLOC_TRIM_THRESHOLD_="131072")[0] == "False"
