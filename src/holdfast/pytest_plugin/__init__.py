"""For pytest: audits as fixtures, each made once a session, and the mark `holdfast`, which holds them to account.

    @pytest.mark.holdfast(require=["breakaway_risk < 5 %"], baseline="runs/last", allow_drop=["breaking_radius 5%"])
    def test_the_encoder_holds(holdfast_audit):
        holdfast_audit("zoo:digits-simclr", "digits", images=200, attacked=60)

Nothing here imports torch, nor anything of Holdfast, before a test asks for an audit.
"""

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from holdfast.pytest_plugin.audits import Audits
    from holdfast.pytest_plugin.gate import Gate
    from holdfast.pytest_plugin.parity import Parity

MARK = (
    "holdfast(require=[], baseline=None, allow_drop=[], strict=False): hold every record that the test audits, or gets "
    "from a fixture, against requirements and a baseline, as `holdfast check` does"
)
TOLD = "holdfast"
"""The property of a test's report that holds what the gate said."""

_audits = pytest.StashKey["Audits"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of Holdfast."""
    group = parser.getgroup("holdfast", "audits of image encoders")
    group.addoption(
        "--holdfast-out", metavar="DIR", help="keep run folders and reports of audits here, and go on from them"
    )
    group.addoption(
        "--holdfast-update-baseline",
        action="store_true",
        help="write the baselines that tests name instead of comparing with them; requirements must be met",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", MARK)


@pytest.fixture(scope="session")
def holdfast_audit(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "Audits":
    """Audit encoders as `holdfast.audit` does, once a session for the same arguments; no clock decides (budget="none").

    Run folders are kept where --holdfast-out says, else among pytest's temporary folders.
    """
    from holdfast.pytest_plugin.audits import Audits

    config = request.config
    base, out = tmp_path_factory.getbasetemp(), config.getoption("--holdfast-out")
    worker = getattr(config, "workerinput", {}).get("workerid", "")  # of pytest-xdist
    place = config.invocation_params.dir / out if out else (base.parent if worker else base) / "holdfast"
    audits = config.stash[_audits] = Audits(Path(place), worker=worker, with_report=bool(out))
    return audits


@pytest.fixture
def holdfast_check(request: pytest.FixtureRequest) -> "Gate":
    """Hold a record against requirements and a baseline, as `holdfast.check` does; what is not met fails the test."""
    return _gate(request.node)


@pytest.fixture
def holdfast_parity(request: pytest.FixtureRequest) -> "Parity":
    """Fail the test unless two builds of one network are the same encoder, as `holdfast parity` says."""
    from holdfast.pytest_plugin.parity import Parity

    return Parity(lambda text: request.node.user_properties.append((TOLD, text)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Forget what tests before this one have audited."""
    if audits := item.config.stash.get(_audits, None):
        audits.asked.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Hold what a marked test has audited against what its marks say."""
    # A test that fails raises here, and what it audited is not judged
    result = yield
    for mark in item.iter_markers("holdfast"):
        if mark.args:
            pytest.fail(f"the mark holdfast: expected keywords, got {mark.args}: require=[...], ...", pytrace=False)
        audits = item.config.stash.get(_audits, None)
        # An earlier test may have made what a fixture gives; its records count here too
        given = getattr(item, "funcargs", {}).values()
        _gate(item).hold_all([*(audits.asked if audits else ()), *given], **mark.kwargs)
    return result


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what the gate said of each test."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    lines = [
        f"{report.nodeid}: {text}"
        for report in reports
        if getattr(report, "when", None) == "call"  # once a test, without setup and teardown
        for name, text in report.user_properties
        if name == TOLD
    ]
    if lines:
        terminalreporter.section("holdfast")
        for line in lines:
            terminalreporter.write_line(line)


def _gate(item: pytest.Item) -> "Gate":
    from holdfast.pytest_plugin.gate import Gate

    return Gate(
        item.config.rootpath,
        bool(item.config.getoption("--holdfast-update-baseline")),
        lambda text: item.user_properties.append((TOLD, text)),
    )
