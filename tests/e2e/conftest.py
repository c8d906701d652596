"""What the tests of whole runs share."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from holdfast.auditing import plan_file
from report_fixture import no_charts

DRAWN = {"test_corruption_study", "test_examples", "test_leaderboard_in_browser", "test_noise_pictures",
         "test_report_in_browser", "test_series_in_audits"}  # fmt: skip
"""Modules whose tests look at charts."""

AS_USERS_RUN = {"test_audit_run", "test_golden", "test_s3"}
"""Modules whose audits are compared with audits of other processes, or with golden records."""

IN_ROUNDS = {"test_rounds"}
"""Modules whose tests are about rounds."""

QUERIES = 20
"""Of the gradient-free attack among the checks, at most: it is most of a small audit's passes."""


@pytest.fixture(autouse=True, scope="module")
def charts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave charts empty where nobody looks at them: drawing takes most of a report's time, and has its own tests."""
    with nullcontext() if request.module.__name__ in DRAWN else no_charts():
        yield


@pytest.fixture(autouse=True, scope="module")
def in_one_go(request: pytest.FixtureRequest) -> Iterator[None]:
    """Audit in a single round where nobody asks for a budget: how many rounds fit into one is up to the machine."""
    budget = plan_file._budget
    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__ not in AS_USERS_RUN | IN_ROUNDS:
            patch.setattr(plan_file, "_budget", lambda time, usual: budget(time, None))
        yield


@pytest.fixture(autouse=True, scope="module")
def few_queries(request: pytest.FixtureRequest) -> Iterator[None]:
    """Plan a small gradient-free attack: its findings have tests of their own."""
    panel = plan_file.validity_panel

    def small(measures: Any, examined: int, queries: int, *rest: Any) -> Any:
        return panel(measures, examined, min(queries, QUERIES), *rest)

    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__ not in AS_USERS_RUN:
            patch.setattr(plan_file, "validity_panel", small)
        yield
