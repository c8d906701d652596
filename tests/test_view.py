"""The viewer without a browser: states of runs, pages by their addresses, images side by side, files."""

import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

import holdfast
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.core import Encoder
from holdfast.runtime.errors import BadPlace, Missing, NothingAudited, UnreadableRecord
from holdfast.runtime.listener import Silent
from holdfast.storage.entry import read_json
from holdfast.storage.progress_file import PROGRESS, SILENT, Progress, alive, read_progress
from holdfast.storage.record import MeasureEntry
from holdfast.workflows.view.images import _align_values, side_by_side
from holdfast.workflows.view.runs import FRESH, Runs
from holdfast.workflows.view.server import application
from holdfast.workflows.view.site import Site
from holdfast.workflows.view.write import write_site
from json_records import run_audit, run_rounds
from report_fixture import make_run, no_charts, write_record
from view_fixture import EVIL, dead_process, make_runs, progress, write_progress


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("viewed") / "runs"
    make_runs(folder)
    return folder


def text(site: Site, address: str) -> str:
    page = site.page(address)
    assert page is not None, address
    return page.content.decode()


def ids(root: Path) -> dict[str, str]:
    return {run.place: run.id for run in Runs(root).all()}


# --- states ---------------------------------------------------------------------------------------


def test_each_run_has_its_state(root: Path) -> None:
    states = {run.place: run.state for run in Runs(root).all()}
    assert states == {
        "done/a": "done", "done/b": "done", "done/other": "done", f"done/{EVIL}": "done",
        "running": "running", "killed": "killed", "damaged": "unreadable", "link": "unreadable",
    }  # fmt: skip
    reasons = {run.place: run.reason for run in Runs(root).all()}
    assert "JSON" in reasons["damaged"]
    assert "link" in reasons["link"]
    assert "the same command continues" in reasons["killed"]
    assert not any(str(root) in reason for reason in reasons.values())


def test_a_silent_process_is_dead_and_one_that_is_gone_soon() -> None:
    now = time.time()
    assert alive(read_json(progress(written=now), Progress), now)
    # in a container it may be another number
    assert alive(read_json(progress(process=dead_process(), written=now), Progress), now)
    assert not alive(read_json(progress(process=dead_process(), written=now - 15), Progress), now)
    assert alive(read_json(progress(process=dead_process(), machine="another", written=now - 15), Progress), now)
    assert not alive(read_json(progress(written=now - SILENT - 1), Progress), now)


def test_damaged_progress_is_none(tmp_path: Path) -> None:
    write_progress(tmp_path)
    assert read_progress(tmp_path) is not None
    for wrong in ("", "[]", "{}", '{"process": NaN}', json.dumps(progress(bars=3))):
        (tmp_path / PROGRESS).write_text(wrong, encoding="utf-8")
        assert read_progress(tmp_path) is None, wrong


def test_a_run_between_two_rounds_was_killed(tmp_path: Path) -> None:
    record = make_run(tmp_path / "a", encoders=1)
    record["run"]["rounds"] = {"number": 1, "of": 20, "before": 0.0, "answers_only": True, "budget": 60.0}
    write_record(tmp_path / "a", record)
    (run,) = Runs(tmp_path).all()
    assert (run.state, "between two rounds" in run.reason) == ("killed", True)
    record["run"]["rounds"]["ended"] = "budget"
    write_record(tmp_path / "a", record)
    (run,) = Runs(tmp_path).all()
    assert (run.state, run.reason) == ("done", "")


def test_a_record_that_changes_is_read_again(tmp_path: Path) -> None:
    record = make_run(tmp_path / "a", encoders=1)
    runs = Runs(tmp_path)
    record["plan"]["profile"] = "another"
    assert [run.facts and run.facts.profile for run in runs.all()] == ["quick"]
    write_record(tmp_path / "a", record)
    time.sleep(FRESH)
    assert [run.facts and run.facts.profile for run in runs.all()] == ["another"]


# --- pages ----------------------------------------------------------------------------------------


def test_the_index_has_all_runs_and_escapes_their_names(root: Path) -> None:
    page = text(Site(root, live=True), "")
    assert EVIL not in page
    assert "onerror=alert(1)&gt;" in page.replace("<wbr>", "")
    assert len(re.findall(r"<tr data-state=", page)) == 8
    assert 'data-poll="index.json"' in page
    assert "data-poll" not in text(Site(root, live=False), "index.html").replace("[data-poll]", "")


def test_comparisons_of_an_index_are_listed_with_their_answer(tmp_path: Path) -> None:
    images = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    old, new = (Encoder(nn.Flatten(), mean=0, std=1, name=name) for name in ("old", "new"))
    root = tmp_path / "all"
    asked = {"images": 40, "rate": 0.05, "quiet": True, "require": ["overlap@10 > 99.99 %"]}
    record = holdfast.compare_index(old, new, images, out=root / "deep" / "up", **asked)
    (root / "other").mkdir()
    (root / "other" / "index.json").write_text("{}")  # of somebody else
    (root / "old").mkdir()
    (root / "old" / "index.json").write_text('{"schema": 1, "holdfast": {}, "translation": []}')
    page = text(Site(root, live=True), "")
    assert page.count('<td data-head="answer"') == 2
    assert "With new instead of old, on 40 images" in page
    assert record["finished"][:16].replace("T", " ") in page
    assert '<span class="bad">FAILED</span>' in page
    assert "its schema is 1, and 3 is expected" in page
    assert "There is no run" not in page
    (link,) = re.findall(r'href="(upgrades/[^"]+)"', page)
    report = text(Site(root, live=True), link)
    assert "Thresholds of both" in report
    assert Site(root, live=True).page(link.replace("report", "index")) is None
    written, lost = write_site(root, tmp_path / "site", lambda line: None)
    assert (written, lost) == (2, [])
    assert (tmp_path / "site" / link).is_file()


def test_a_run_that_came_to_nothing_says_why(tmp_path: Path) -> None:
    with pytest.raises(NothingAudited, match=r"\[2, 32, 4, 4\]"):
        holdfast.audit("zoo:digits-simclr?layer=2", "digits", images=20, out=tmp_path / "run", quiet=True)
    (run,) = Runs(tmp_path).all()
    assert (run.state, "not one vector per image" in run.reason) == ("failed", True)


def test_a_run_folder_itself_is_viewed_too(tmp_path: Path) -> None:
    make_run(tmp_path / "the run", encoders=1)
    assert [run.place for run in Runs(tmp_path / "the run").all()] == ["the run"]


def test_names_that_are_no_text_are_shown(tmp_path: Path) -> None:
    make_run(tmp_path / "run", encoders=1)
    (tmp_path / "run").rename(tmp_path / os.fsdecode(b"run \xff"))
    (run,) = Runs(tmp_path).all()
    assert re.fullmatch(r"[A-Za-z0-9_-]+", run.id)
    assert "run ?" in text(Site(tmp_path, live=True), "")


def test_an_empty_folder_says_what_makes_a_run(tmp_path: Path) -> None:
    assert "There is no run below this folder yet" in text(Site(tmp_path, live=True), "")


@pytest.mark.slow
def test_without_the_server_pages_can_still_be_written(root: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("holdfast.runtime.optional.find_spec", lambda name: None)
    with pytest.raises(Missing, match=r"\[view\].*--out"):
        application(Site(root, live=True), ["localhost"])
    assert write_site(root, tmp_path / "site", Silent().stage)[0] > 0


def test_no_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnreadableRecord):
        Site(tmp_path / "none", live=True)


def test_what_is_no_page_is_none(root: Path) -> None:
    site, own = Site(root, live=True), ids(root)
    a = own["done/a"]
    picture = next((root / "done/a/pictures").rglob("*.png")).relative_to(root / "done/a")
    assert site.page(f"runs/{a}/{picture.as_posix()}") is not None
    for address in (
        "nothing", "../outside", "/etc/passwd", "record.json", "images-0000000000.html", f"runs/{a}", f"runs/{a}/",
        f"runs/{a}/record.json", f"runs/{a}/plan.json", f"runs/{a}/pictures/../record.json",
        f"runs/{a}/pictures/../../b/{picture.as_posix()}", f"runs/{a}/pictures/none.png", f"runs/{a}/{picture}\0",
        f"runs/..%2f{a}/index.html", f"runs/../{a}/index.html", f"runs/{own['damaged']}/report.html",
    ):  # fmt: skip
        assert site.page(address) is None, address


def test_a_picture_behind_a_link_is_refused(tmp_path: Path) -> None:
    make_run(tmp_path / "runs/a", encoders=1)
    picture = next((tmp_path / "runs/a/pictures").rglob("*.png"))
    picture.rename(tmp_path / "secret.png")
    picture.symlink_to(tmp_path / "secret.png")
    site = Site(tmp_path / "runs", live=True)
    with pytest.raises(UnreadableRecord, match="2-after-2"):
        site.page(f"runs/{ids(tmp_path / 'runs')['a']}/{picture.relative_to(tmp_path / 'runs/a').as_posix()}")


def test_the_page_of_a_run_at_work_tells_how_far_it_is(tmp_path: Path) -> None:
    score = {"value": 0.05, "low": 0.04, "high": 0.06, "n": 20, "interval": "", "confidence": 0.95, "note": ""}
    scores = [
        {"encoder": f"zoo:{name}", "measure": "m", "title": "Breaking radius", "unit": "pixels", "better": "higher",
         "levels": False, "score": score | {"value": value}}
        for name, value in (("a", 0.05), ("b", 0.055))
    ]  # fmt: skip
    rounds = [{"number": n, "attacked": 6 * n, "seconds": 8.0 * n, "scores": scores} for n in (1, 2)]
    write_progress(tmp_path / "run", rounds=rounds)
    page = text(Site(tmp_path, live=True), f"runs/{ids(tmp_path)['run']}/index.html")
    for said in ("75 %", "about 1 min 15 s", "smallest changes", "30 s of 2 min", "round 2", "12 images", "0.055"):
        assert said in page, said
    assert page.count("[0.040, 0.060]") == 4
    assert EVIL not in page
    data = json.loads(text(Site(tmp_path, live=True), f"runs/{ids(tmp_path)['run']}/progress.json"))
    assert "smallest changes" in data["html"]


# --- reports --------------------------------------------------------------------------------------


def test_a_report_with_other_scripts_is_made_anew(tmp_path: Path) -> None:
    make_run(tmp_path / "a", encoders=1)
    (tmp_path / "a/report.html").write_text("<script>alert(1)</script>", encoding="utf-8")
    with no_charts():
        page = Site(tmp_path, live=True).page(f"runs/{ids(tmp_path)['a']}/report.html")
    assert page is not None
    assert b"alert(1)" not in page.content
    assert "default-src 'none'" in page.policy
    assert "'unsafe-inline'" not in page.policy.partition("script-src")[2]


# --- images side by side --------------------------------------------------------------------------


def test_values_are_those_of_the_tables(root: Path) -> None:
    runs = [run for run in Runs(root).all() if run.place in ("done/a", "done/b")]
    shown = side_by_side(runs)
    assert not shown.problems
    assert len(shown.encoders) == 6
    assert len({encoder["name"] for encoder in shown.encoders}) == 6
    measure = next(m for m in shown.measures if m["title"].startswith("Breakaway"))
    for values, encoder in zip(measure["values"], shown.encoders, strict=True):
        record = json.loads((root / encoder["place"] / "record.json").read_text(encoding="utf-8"))
        entry = next(e for e in record["encoders"] if e["name"] == encoder["whole"])["measures"]["breakaway_risk"]
        table = pq.read_table(root / encoder["place"] / entry["table"])
        assert shown.ids == table["id"].to_pylist()
        assert values == pytest.approx(table[entry["column"]].to_pylist(), rel=1e-3)


def test_pictures_are_of_their_images_and_there(root: Path) -> None:
    (run,) = (run for run in Runs(root).all() if run.place == "done/a")
    site, shown = Site(root, live=True), side_by_side([run])
    record = json.loads((root / "done/a/record.json").read_text(encoding="utf-8"))
    expected = {e["id"] for encoder in record["encoders"] for e in encoder["gallery"]} & set(shown.ids)
    assert expected
    assert {shown.ids[int(row)] for row in shown.attacked} == expected
    for entries in shown.attacked.values():
        for _, what, attacked, difference, rival, rival_picture in entries:
            assert what.startswith("attack, drift")
            assert rival.startswith("digit-")
            for address in (attacked, difference, rival_picture):
                page = site.page(unquote(address))
                assert page is not None
                assert page.content.startswith(b"\x89PNG")


def test_only_runs_on_the_same_images_stand_together(root: Path) -> None:
    groups: dict[str, set[str]] = {}
    for run in Runs(root).all():
        if run.stamp and run.facts:
            groups.setdefault(run.facts.conditions, set()).add(run.place)
    assert sorted(groups.values(), key=len) == [{"done/other"}, {"done/a", "done/b", f"done/{EVIL}"}]


def test_images_behind_the_last_one_that_was_examined_take_no_room() -> None:
    values = np.array([np.inf, np.nan, 0.123456])
    assert _align_values(["c", "b", "a", "d"], ["a", "b", "c"], values) == [0.1235, None, "∞"]
    assert _align_values(["a", "b"], ["a", "b"], np.full(2, np.nan)) == []


@pytest.mark.parametrize(
    ("column", "unit", "better", "values", "breaks"),
    [
        ("found", "share", "higher", [0.0, 1.0], {"above": False, "at": 0.5, "words": ["broken", "held"]}),
        ("x", "share", "lower", [0.0, 1.0], {"above": True, "at": 0.5, "words": ["broken", "held"]}),
        ("broken@5", "share", "lower", [0.0, 0.2], {"above": True, "at": 0.0, "words": ["broken", "held"]}),
        ("x", "share", "lower", [0.0, 0.2], None),
    ],
)
def test_when_an_image_is_broken(tmp_path: Path, column, unit, better, values, breaks) -> None:
    import numpy as np

    from holdfast.workflows.view.images import _breaks

    part = {"name": "m", "ball": {"name": "linf", "radius": 0.1}}
    m = MeasureEntry(title="", column=column, unit=unit, better=better, part=part, error="not scored")
    assert _breaks(m, [(["a", "b"], np.array(values))]) == breaks


def test_damage_is_told_and_hides_no_other(tmp_path: Path) -> None:
    record = make_run(tmp_path / "a", encoders=2)
    table = record["encoders"][0]["measures"]["breakaway_risk"]["table"]
    (tmp_path / "a" / table).write_bytes(b"no table")
    shown = side_by_side(Runs(tmp_path).all())
    assert [table in problem for problem in shown.problems] == [True]
    assert len(shown.measures) > 2


def test_text_of_a_record_does_not_end_the_data_of_the_page(tmp_path: Path) -> None:
    record = make_run(tmp_path / "a", encoders=1)
    record["encoders"][0]["name"] = "x</script><script>alert(1)</script>"
    write_record(tmp_path / "a", record)
    (run,) = Runs(tmp_path).all()
    assert run.facts is not None
    assert "</script><script>alert" not in text(Site(tmp_path, live=True), f"images-{run.facts.conditions}.html")


# --- files ----------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_files_lead_to_each_other_and_nothing_viewed_changes(root: Path, tmp_path: Path) -> None:
    before = contents(root)
    with no_charts():
        written, lost = write_site(root, tmp_path / "site", lambda text: None)
    assert contents(root) == before
    assert lost == []
    files = contents(tmp_path / "site")
    assert written == len(files)
    for name in (name for name in files if name.endswith(".html")):
        page = (tmp_path / "site" / name).read_text(encoding="utf-8")
        for link in re.findall(r'href="([^"#]+)"', page):
            if not link.startswith("data:"):
                assert (tmp_path / "site" / name).parent.joinpath(unquote(link)).is_file(), (name, link)
        for link in re.findall(r'"(runs/[^"]+\.png)"', page):
            assert (tmp_path / "site" / unquote(link)).is_file(), (name, link)


def test_files_go_outside_of_the_viewed_folder(root: Path) -> None:
    with pytest.raises(BadPlace, match="--out"):
        write_site(root, root / "site", lambda text: None)


# --- progress of an audit -------------------------------------------------------------------------


class Looks(Silent):
    """Reads what stands in the folder whenever something is being done."""

    def __init__(self, folder: Path, error: Exception | None = None):
        self.folder, self.error, self.heard = folder, error, []

    def stage(self, text: str) -> None:
        self.heard.append(read_progress(self.folder))
        if self.error is not None and text.startswith("scoring"):
            raise self.error


PLAN = {"profile": "quick", "images": 24, "attacked": 8, "measures": ["uniformity", "breakaway_risk"]}


def plan(*encoders: str, **changes):
    return make_plan(AuditRequest(encoders, "digits", **{**PLAN, **changes}))


def test_an_audit_at_work_tells_its_progress_and_takes_it_away(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("holdfast.auditing.progress_file.EVERY", 0.01)
    looks = Looks(tmp_path)
    run_audit(plan("zoo:digits-simclr", "zoo:cnn_a_cifar"), tmp_path, listener=looks)
    heard = [one for one in looks.heard if one is not None]
    assert heard
    assert all(alive(one, time.time()) for one in heard)
    assert heard[-1].encoders == ["zoo:digits-simclr", "zoo:cnn_a_cifar"]
    assert any(one.bars and one.bars[0].done > 0 for one in heard)
    assert any("cnn_a_cifar" in failure for failure in heard[-1].failures)
    assert not (tmp_path / PROGRESS).exists()


def test_an_audit_that_raises_leaves_no_progress(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        run_audit(plan("zoo:digits-simclr"), tmp_path, listener=Looks(tmp_path, KeyError("x")))
    assert not (tmp_path / PROGRESS).exists()


@pytest.mark.slow
def test_rounds_leave_their_scores(tmp_path: Path) -> None:
    heard = []

    def told(record: Any) -> None:
        time.sleep(0.05)
        heard.append(read_progress(tmp_path))

    import holdfast.auditing.progress_file as writer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "EVERY", 0.01)
        record = run_rounds(plan("zoo:digits-simclr", budget="1m", measures=()), tmp_path, told)
    assert [len(one.rounds) for one in heard] == list(range(1, len(heard) + 1))
    assert record["run"]["rounds"]["number"] == len(heard)
    last = heard[-1].rounds[-1]
    assert last.attacked == record["data"]["attacked"]
    headline = record["encoders"][0]["measures"]["breaking_radius"]
    assert headline["scores"][headline["headline"]]["value"] in [scored.score.value for scored in last.scores]
