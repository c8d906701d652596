"""How all tests are chosen and run; what they share is in `shared_fixtures.py`."""

import gc
import os
import sys
import tempfile

os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="holdfast-tests-")  # what is remembered is remembered for a run
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the suite and the audits that it starts run in parallel processes
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # of the many processes that tests start, the first one compiles
os.environ["HYPOTHESIS_NO_PLUGINS"] = "1"  # no test is asynchronous, and trio's takes a second to import

import pytest

from slices import be_patient, kept, slice_of, thin_out

sys.dont_write_bytecode = False  # tests are compiled once, which takes longer than to import them
gc.disable()  # until all is imported

pytest.register_assert_rewrite("sameness")  # which says what differs


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow-slice", type=slice_of, metavar="K/N", help="of the slow tests, each N-th from the K-th on")


def pytest_configure(config: pytest.Config) -> None:
    """Import what tests share where they are run: the process that hands them out to others would wait for torch."""
    hands_out = config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")
    if not hands_out:
        config.pluginmanager.import_plugin("shared_fixtures")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Thin out sweeps; give slow tests time; keep a slice of them, where one is asked for."""
    if providers := sys.modules.get("hypothesis.internal.conjecture.providers"):
        # Constants of all our files, which it would try as well, take each worker seconds to collect
        providers._get_local_constants = lambda: providers._local_constants  # pyright: ignore[reportAttributeAccessIssue]
    thin_out(items)
    be_patient(items)
    if part := config.getoption("--slow-slice"):
        remaining = kept(items, part)
        left_out = set(items) - set(remaining)
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = remaining
