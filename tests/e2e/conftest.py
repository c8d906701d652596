"""What the tests of whole runs share."""

from collections.abc import Iterator

import pytest

DRAWN = {"test_corruption_study", "test_examples", "test_leaderboard_in_browser", "test_noise_pictures",
         "test_report_in_browser", "test_series_in_audits"}  # fmt: skip
"""Modules whose tests look at charts."""


@pytest.fixture(autouse=True, scope="module")
def charts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave charts empty where nobody looks at them: drawing takes most of a report's time, and has its own tests."""
    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__ not in DRAWN:
            empty = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"></svg>'
            patch.setattr("matplotlib.figure.Figure.savefig", lambda figure, file, **_: file.write(empty))
        yield
