"""What the tests of whole runs share."""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from holdfast.auditing import score
from holdfast.workflows.harden import keeper
from report_fixture import no_charts

DRAWN = {"test_corruption_study", "test_examples", "test_leaderboard_in_browser", "test_noise_pictures",
         "test_report_in_browser", "test_series_in_audits"}  # fmt: skip
"""Modules whose tests look at charts."""

UNPICTURED = {"test_answers_in_audits", "test_coarse_attacks", "test_harden_certified", "test_keeper",
              "test_monitoring", "test_regression_gate", "test_robust_probing", "test_rounds", "test_series_in_audits",
              "test_standing", "test_surrogates", "test_teachers", "test_what_learns", "test_winners"}  # fmt: skip
"""Modules whose tests look at no pictures of attacked images, which are a tenth of a small audit's time."""

ATTACKED, STEPS = 16, 10
"""Of the looks along hardenings: they are most of a short training's passes."""


@pytest.fixture(autouse=True, scope="session")
def small_looks() -> Iterator[None]:
    """Let hardenings look at few images, and search in few steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keeper, "ATTACKED", ATTACKED)
        patch.setattr(keeper, "STEPS", STEPS)
        yield


@pytest.fixture(autouse=True, scope="module")
def charts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave charts empty where nobody looks at them: drawing takes most of a report's time, and has its own tests."""
    with nullcontext() if request.module.__name__ in DRAWN else no_charts():
        yield


@pytest.fixture(autouse=True, scope="module")
def unpictured(request: pytest.FixtureRequest) -> Iterator[None]:
    """Take no pictures where nobody looks at them."""
    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__ in UNPICTURED:
            patch.setattr(score, "select_pictured", lambda _: [])
        yield
