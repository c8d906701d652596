"""Signs of life where there is no terminal."""

import io
import re
import time

import pytest

from holdfast.runtime import progress
from holdfast.runtime.progress import Bars, Lines
from holdfast.runtime.screen import Screen


def lines_of(shown: io.StringIO) -> list[str]:
    """Return the lines without their times."""
    return [line.partition(" ")[2] for line in shown.getvalue().splitlines()]


def test_a_log_hears_of_the_start_of_each_stage_that_lasts_and_once_a_minute() -> None:
    shown = io.StringIO()
    log = Lines(Screen(file=shown, width=40))
    began = log._since
    log.look(began + 100)
    assert lines_of(shown) == []  # nothing was heard yet
    log.stage("reading the images")
    log.look(began + 120)
    log.begin("net", 1000, "passes")
    assert lines_of(shown) == ["reading the images (for 2 min)", "net: begun"]
    began = log._last
    log.look(began)
    log.stage("a search, 50 steps")
    log.look(began + 1)  # may be over soon
    log.advance(100)
    log.look(began + 10)
    log.stage("a search, 49 steps")  # the same one
    log.look(began + 20)
    assert lines_of(shown)[2:] == ["net: 10%, about 90 s left: a search, 50 steps".replace("90 s", "2 min")]
    log.advance(100)
    for second in range(21, 200):
        log.look(began + second)
    assert len(lines_of(shown)[3:]) == 3
    assert lines_of(shown)[-1].startswith("net: 20%, about ")


def test_the_heartbeat_comes_while_one_long_operation_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LIFE", 0.1)
    monkeypatch.setattr(progress, "TICK", 0.02)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    shown = io.StringIO()
    with Bars(Screen(file=shown)) as bars:
        bars.begin("[/red]", 10)
        bars.stage("work")
        time.sleep(0.6)  # nobody calls the listener
    assert len([line for line in lines_of(shown) if "[/red]: 0%: work" in line]) >= 2


def test_quiet_is_quiet_and_nothing_heard_is_nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LIFE", 0.0)
    monkeypatch.setattr(progress, "TICK", 0.02)
    for quiet in (True, False):
        shown = io.StringIO()
        with Bars(Screen(file=shown), quiet=quiet) as bars:
            if quiet:
                bars.begin("net", 10)
            time.sleep(0.2)
        assert shown.getvalue() == ""


def test_bars_show_what_comes_before_the_first_encoder_and_names_as_they_are() -> None:
    shown = io.StringIO()
    with Bars(Screen(file=shown, force_terminal=True, width=150)) as bars:
        bars.stage("reading the images")
        time.sleep(0.3)
        bars.begin("net[/x]\x1b]0;owned\x07", 10)
        bars.stage("[red]work")
    text = shown.getvalue()
    assert "reading the images" in text
    assert "net[/x]␛]0" in text
    assert "[red]work" in text
    assert "\x1b]0" not in text


@pytest.mark.parametrize("terminal", [False, True])
def test_what_fails_is_said_at_once_and_once(terminal: bool) -> None:
    shown = io.StringIO()
    with Bars(Screen(file=shown, force_terminal=terminal, width=150)) as bars:
        for _ in range(2):  # rounds
            bars.begin("net", 10)
            bars.report_failure("net[/red]: cannot be opened")
            assert shown.getvalue().count("net[/red]: cannot be opened") == 1


def test_quiet_is_quiet_about_failures_too() -> None:
    shown = io.StringIO()
    with Bars(Screen(file=shown, force_terminal=True), quiet=True) as bars:
        bars.report_failure("net: cannot be opened")
    assert shown.getvalue() == ""


def test_of_several_encoders_the_time_left_is_that_of_all() -> None:
    shown = io.StringIO()
    log = Lines(Screen(file=shown, width=40))
    began = log._since
    log.expect(3, 3000)
    log.begin("a", 1000, "passes")
    log.look(began)
    log.advance(500)
    log.look(began + 100)
    assert "a: 50%, about 8 min left with the 2 encoders after it" in lines_of(shown)[-1]
    log.begin("b", 1000, "passes")
    log.begin("c", 1000, "passes")
    log.look(began + 200)
    log.advance(500)
    log.look(began + 300)
    assert re.fullmatch(r"c: 50%, about \d+ (min|s) left", lines_of(shown)[-1])


def test_one_bar_has_the_time_left_of_several_encoders() -> None:
    with Bars(Screen(file=io.StringIO(), force_terminal=True, width=150)) as bars:

        def seen() -> list[tuple[str, float, float | None, bool]]:
            timed = {t.id for t in bars._progress.tasks if str(bars._left.render(t))}
            return [(t.fields["encoder"], t.completed, t.total, t.id in timed) for t in bars._progress.tasks]

        for _ in range(2):  # rounds
            bars.expect(2, 200)
            bars.begin("a", 100)
            bars.advance(60)
            bars.begin("b", 100)  # the other 40 were not needed
            bars.advance(10)
            assert seen() == [("2 encoders", 70, 160, True), ("a", 60, 100, False), ("b", 10, 100, False)]
        bars.begin("training", 50, "steps")
        assert seen()[-1] == ("training", 0, 50, True)
        assert "2 encoders" not in [name for name, *_ in seen()]
