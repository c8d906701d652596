"""What the viewer believes: reports as they were written, progress files that are whole; and how soon it begins."""

import os
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.storage.filesystem import Folder
from holdfast.storage.record_file import read_record
from holdfast.storage.seal import report_of
from holdfast.workflows.view import runs as runs_module
from holdfast.workflows.view.site import Site
from report_fixture import make_run, no_charts
from test_view import ids, text


def test_a_report_is_taken_from_the_folder_or_made(tmp_path: Path) -> None:
    make_run(tmp_path / "a", encoders=1)
    address, report = f"runs/{ids(tmp_path)['a']}/report.html", tmp_path / "a/report.html"
    with no_charts():
        made = text(Site(tmp_path, live=True), address)
    assert "<h1" in made
    assert not report.exists()  # nothing is written
    record = read_record(Folder(tmp_path / "a"))
    whole = report_of(record, made.replace("</main>", "<p>as it was written</p></main>"))
    report.write_text(whole, encoding="utf-8")
    assert "as it was written" in text(Site(tmp_path, live=True), address)
    edited = (
        whole.replace("as it was written", "as it was written, or not"),
        whole.replace("</body>", '<meta http-equiv="refresh" content="1;url=http://x/"></body>'),
        whole.rpartition("<!--")[0],
        whole + "<p>more</p>",
        report_of(replace(record, seal="another"), whole),
    )
    for changed in edited:
        report.write_text(changed, encoding="utf-8")
        with no_charts():
            assert "as it was written" not in text(Site(tmp_path, live=True), address)


def test_records_are_read_while_the_first_page_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        make_run(tmp_path / name, encoders=1)
    go_on = threading.Event()
    read = runs_module._read
    monkeypatch.setattr(runs_module, "_read", lambda folder: (go_on.wait(), read(folder))[1])
    monkeypatch.setattr(runs_module, "AHEAD", 0.0)
    site = Site(tmp_path, live=True)
    site.runs.read_ahead()
    assert [run.state for run in site.runs.all()] == ["unread", "unread"]
    assert "its record is being read" in text(site, "")
    go_on.set()
    assert site.page("leaderboard.html") is not None  # which waits for all of them
    assert [run.state for run in site.runs.all()] == ["done", "done"]


@pytest.mark.parametrize("damage", ["{}", "[]", "{", '{"rounds": [{"scores": [{}]}]}', "pipe"])
def test_a_damaged_progress_file_is_a_line(tmp_path: Path, damage: str) -> None:
    make_run(tmp_path / "a", encoders=1)
    place = tmp_path / "a" / "progress.json"
    os.mkfifo(place) if damage == "pipe" else place.write_text(damage)
    site = Site(tmp_path, live=True)
    address = f"runs/{ids(tmp_path)['a']}/"
    for page in ("", f"{address}index.html", f"{address}progress.json"):
        assert "its progress.json is damaged, or no file, and is not read" in text(site, page)
