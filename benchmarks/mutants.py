"""Mutants: bugs on purpose, each of which the default test suite must notice.

    python -m benchmarks.mutants [--only TEXT] [--jobs N]

`mutants.toml` names each bug, the text of a file that it changes, and the tests that must notice it. First all of these
tests must pass without a bug. Then each mutant gets a copy of `src` of its own, and at least one of its tests must fail
there, or run out of time. The exit status is 1 where a mutant survives or cannot be tried.
"""

import argparse
import io
import os
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".toml")
SECONDS = 120
"""Time that a test of a mutant has: an endless loop is noticed, too."""
SHARED = ["pytest", "pyarrow", "scipy.stats", "sklearn.linear_model", "torch", "torch.export"]
"""What takes long to import and is no part of holdfast: imported once, for the processes of all mutants."""


@dataclass(frozen=True)
class Mutant:
    """One bug.

    Attributes:
        name: what is broken, in words.
        file: the file that it changes, seen from the root of the repository.
        old: the text that it changes, which occurs once in the file.
        new: the text in its place.
        tests: node ids of the tests of which at least one must fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def problem(self) -> str:
        """Why the mutant cannot be tried; empty where it can."""
        if not (ROOT / self.file).is_file():
            return f"{self.name}: expected the file {self.file}, got none"
        count = (ROOT / self.file).read_text(encoding="utf-8").count(self.old)
        if count != 1:
            return f"{self.name}: expected the old text once in {self.file}, got it {count} times"
        lost = [test for test in self.tests if not _exists(test)]
        return f"{self.name}: expected tests that are there, got {lost}" if lost or not self.tests else ""

    def planted(self, folder: Path) -> Path:
        """Copy `src` into a folder, change the file there, and return the copy."""
        copy = Path(shutil.copytree(ROOT / "src", folder / "src"))  # compiled files stay valid: dates are copied
        file = folder / self.file
        file.write_text(file.read_text(encoding="utf-8").replace(self.old, self.new), encoding="utf-8")
        return copy


def _exists(test: str) -> bool:
    """Whether there is a test function of this node id."""
    file, _, names = test.partition("::")
    function = names.partition("[")[0].rpartition("::")[2]
    return (ROOT / file).is_file() and f"def {function}(" in (ROOT / file).read_text(encoding="utf-8")


def mutants(only: str = "") -> list[Mutant]:
    """Return the mutants of the list with some text in their name, file or tests."""
    tables = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    every = [Mutant(**{**table, "tests": tuple(table["tests"])}) for table in tables]
    return [mutant for mutant in every if only.lower() in " ".join((mutant.name, mutant.file, *mutant.tests)).lower()]


def run(tests: Sequence[str], source: Path, workers: int = 0) -> tuple[int, str]:
    """Run tests on the source in some folder, in a fresh process.

    Returns:
        The exit status of pytest, and the end of what it printed.
    """
    os.chdir(ROOT)
    os.environ |= {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}  # for processes that tests start
    sys.path.insert(0, str(source))
    for name in [name for name in sys.modules if name.split(".")[0] == "holdfast"]:
        del sys.modules[name]  # the package of this file has imported some of it, from elsewhere
    options = ["-x", "-q", "--tb=no", f"--timeout={SECONDS}", "-n", str(workers)]
    with redirect_stdout(io.StringIO()) as printed, redirect_stderr(printed):
        status = pytest.main([*options, *tests])
    return int(status), "\n".join(printed.getvalue().strip().splitlines()[-5:])


def tried(mutant: Mutant) -> tuple[Mutant, str, float]:
    """Plant a mutant and run its tests.

    Returns:
        The mutant, what became of it ("killed", "SURVIVED", or why that is not known), and the seconds that it took.
    """
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        status, printed = run(mutant.tests, mutant.planted(Path(folder)))
    fates = {pytest.ExitCode.TESTS_FAILED: "killed", pytest.ExitCode.OK: "SURVIVED"}
    return mutant, fates.get(pytest.ExitCode(status), f"NOT TRIED: {printed}"), time.perf_counter() - began


def processes(jobs: int) -> ProcessPoolExecutor:
    """Return a pool in which each call has a fresh process, so that each mutant imports its own holdfast."""
    context = get_context("forkserver")
    context.set_forkserver_preload(SHARED)
    return ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=1)


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="TEXT", default="", help="only mutants with this in name, file or tests")
    parser.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count() or 1, help="mutants at a time")
    options = parser.parse_args()
    chosen, began, alive = mutants(options.only), time.perf_counter(), 0
    if problems := list(filter(None, (mutant.problem() for mutant in chosen))):
        raise SystemExit("\n".join([*problems, f"bring {LIST.relative_to(ROOT)} up to date"]))
    if not chosen:
        raise SystemExit("expected at least one mutant, got none; choose another --only")
    with processes(options.jobs) as pool:
        tests = tuple(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
        status, printed = pool.submit(partial(run, tests, ROOT / "src", options.jobs)).result()
        if status != pytest.ExitCode.OK:
            raise SystemExit(f"without a mutant, expected all tests to pass, got\n{printed}")
        for mutant, fate, seconds in pool.map(tried, chosen):
            alive += fate != "killed"
            print(f"{fate}  {mutant.name}  ({mutant.file}, {seconds:.0f} s)", flush=True)
    print(f"{len(chosen) - alive} of {len(chosen)} mutants killed in {time.perf_counter() - began:.0f} s")
    sys.exit(alive > 0)


if __name__ == "__main__":
    main()
