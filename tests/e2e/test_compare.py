"""Comparing audits: what is compared, what is refused and why, what is written, and the leaderboard."""

import copy
import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from test_command_line import refused, run
from torch import nn

from holdfast.auditing.plan import Plan
from holdfast.comparison.records import open_run
from holdfast.core import Encoder
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.checks.collapse import Collapse
from holdfast.parts.measures.classifiers.probe_accuracy import ProbeAccuracy
from holdfast.parts.measures.drift.cosine_to_self import CosineToSelf
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.measures.neighbours.breaking_radius import BreakingRadius
from holdfast.parts.measures.neighbours.overlap_risk import OverlapRisk
from holdfast.parts.probes.knn import Knn
from holdfast.storage.seal import add_seal
from json_records import compare_runs, leaderboard, run_audit
from test_report_html import Page

ATTACK = Pgd(3, 0.05)
MEASURES = (BreakawayRisk(ATTACK), OverlapRisk(ATTACK), CosineToSelf(ATTACK), ProbeAccuracy(Knn(5)))


def encoder(name: str, seed: int) -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 12))
    return Encoder(net, mean=0.5, std=0.5, name=name)


def audit(folder: Path, names: tuple[str, ...], **changes: Any) -> Path:
    encoders = {name: encoder(name, ord(name[0])) for name in names}
    asked = {"data": "digits", "measures": MEASURES, "checks": (Collapse(),), "images": 260, "attacked": 60} | changes
    run_audit(Plan(encoders=names, **asked), folder, encoders=encoders)
    return folder


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an audit of a and b, one of c and d, and one of all four together."""
    folder = tmp_path_factory.mktemp("audits")
    audit(folder / "ab", ("a", "b"))
    audit(folder / "cd", ("c", "d"))
    audit(folder / "together" / "abcd", ("a", "b", "c", "d"))
    return folder


@pytest.fixture
def two(audits: Path, tmp_path: Path) -> tuple[str, str]:
    """Copies of the two audits, which a test may change."""
    for name in ("ab", "cd"):
        shutil.copytree(audits / name, tmp_path / name, ignore=shutil.ignore_patterns("cache", "pictures"))
    return str(tmp_path / "ab"), str(tmp_path / "cd")


def change(folder: str, edit: Callable[[dict[str, Any]], object]) -> None:
    path = Path(folder) / "record.json"
    record = json.loads(path.read_text())
    edit(record)
    path.write_text(json.dumps(add_seal(record)))


def compared(*folders: str, **options: Any) -> dict[str, Any]:
    return compare_runs([open_run(folder) for folder in folders], **options)


def row(data: dict[str, Any], measure: str, name: str) -> dict[str, Any]:
    return next(row for row in data["measures"][measure]["rows"] if row["encoder"] == name)


# --- what is compared -----------------------------------------------------------------------------


def test_apart_is_as_together(audits: Path, two: tuple[str, str]) -> None:
    apart = compared(*two)
    record = json.loads((audits / "together" / "abcd" / "record.json").read_text())
    assert list(apart["measures"]) == list(record["comparison"])
    assert apart["comparisons"] == len(MEASURES) * 6
    assert (apart["left_out"], apart["problems"], apart["cautions"]) == ([], [], [])
    for name, entry in record["comparison"].items():
        assert apart["measures"][name]["best"] == entry["best"]
        mine = {(pair["first"], pair["second"]): pair for pair in apart["measures"][name]["pairs"]}
        for pair in entry["pairs"]:
            ours = mine[pair["first"], pair["second"]]
            for end in ("value", "low", "high"):
                assert ours["difference"][end] == pytest.approx(pair["difference"][end], abs=1e-6)
            assert ours["winner"] == pair["winner"]
    verdicts = [pair["winner"] is not None for entry in record["comparison"].values() for pair in entry["pairs"]]
    assert 0 < sum(verdicts) < len(verdicts)


def test_verdicts_are_corrected_and_ranks_follow_from_them(two: tuple[str, str]) -> None:
    holm, none = compared(*two), compared(*two, correction="none")
    for name, m in holm["measures"].items():
        for mine, raw in zip(m["pairs"], none["measures"][name]["pairs"], strict=True):
            assert mine["p"] == raw["p"] == raw["p_adjusted"] <= mine["p_adjusted"]
            inside = raw["difference"]["low"] <= 0 <= raw["difference"]["high"]
            assert (raw["winner"] is None) == inside
        for line in m["rows"]:
            beaten = sum(pair["winner"] == line["encoder"] for pair in m["pairs"])
            lost = sum(
                pair["winner"] not in (None, line["encoder"])
                for pair in m["pairs"]
                if line["encoder"] in (pair["first"], pair["second"])
            )
            assert line["rank"] == [1 + lost, 4 - beaten]
    decided = [sum(p["winner"] is not None for m in d["measures"].values() for p in m["pairs"]) for d in (holm, none)]
    assert 0 < decided[0] < decided[1]


def test_measures_may_be_chosen_and_axes_named(capsys, two: tuple[str, str]) -> None:
    data = compared(*two, measures=["breakaway_risk", "cosine_to_self"], x="cosine_to_self")
    assert list(data["measures"]) == ["breakaway_risk", "cosine_to_self"]
    assert data["comparisons"] == 12
    assert (data["pareto"]["x"], data["pareto"]["y"]) == ("cosine_to_self", "breakaway_risk")
    assert compared(*two)["pareto"]["x"] == "probe_accuracy"
    assert "did you mean 'breakaway_risk'" in refused(capsys, "compare", *two, "--measure", "breakaway_rsk")
    assert "did you mean" in refused(capsys, "compare", *two, "--y", "overlap_rsk")
    assert "two different" in refused(capsys, "compare", *two, "--x", "overlap_risk", "--y", "overlap_risk")
    assert "known: bh, holm, none" in refused(capsys, "compare", *two, "--correction", "bonferroni")


def test_any_score_is_compared_image_by_image(capsys, two: tuple[str, str]) -> None:
    name = "probe_accuracy.class 3"
    both = compared(*two, measures=(name, "probe_accuracy"))
    assert list(both["measures"]) == [name, "probe_accuracy"]
    entry = both["measures"][name]
    assert entry["title"].endswith(", class 3")
    asked = open_run(two[0]).record.encoders[0].measures["probe_accuracy"]
    value = row(both, name, "a")["score"]["value"]
    assert value == asked.scores["class 3"].value != asked.scores["top-1"].value
    # of the images of its class alone, and paired by them
    gap = next(pair["difference"] for pair in entry["pairs"] if pair["difference"]["value"] is not None)
    assert gap["n"] == asked.scores["class 3"].n
    assert "correlation" in gap["interval"]
    assert both["comparisons"] == 2 * len(entry["pairs"])  # all are corrected together
    assert run(capsys, "compare", *two, "--measure", name)[0] == 0


def test_scores_that_nobody_has_or_that_judge_nothing_are_refused(capsys, two: tuple[str, str]) -> None:
    assert "unknown score of probe_accuracy 'class 33'" in refused(
        capsys, "compare", *two, "--measure", "probe_accuracy.class 33"
    )
    for folder in two:

        def describe(record: dict[str, Any]) -> None:
            for each in record["encoders"]:
                each["measures"]["probe_accuracy"]["scores"]["class 3"]["better"] = "neither"

        change(folder, describe)
    said = refused(capsys, "compare", *two, "--measure", "probe_accuracy.class 3")
    assert "neither direction is better" in said
    dropped = refused(capsys, "check", two[0], "--baseline", two[0], "--allow-drop", "probe_accuracy.class 3 5 points")
    assert "neither direction is worse" in dropped


@pytest.mark.parametrize(("better", "winner"), [("lower", "b"), ("higher", "a"), ("", "a")])
def test_a_score_wins_in_its_own_direction(two: tuple[str, str], better: str, winner: str) -> None:
    """Fewer abstentions are better, of a measure of which more is."""

    def rig(record: dict[str, Any]) -> None:
        for each, value in zip(record["encoders"], (0.95, 0.05), strict=True):
            told = each["measures"]["probe_accuracy"]["scores"]["class 3"]
            told |= {"value": value, "low": value - 0.04, "high": value + 0.04, "better": better, "n": 60}

    change(two[0], rig)
    name = "probe_accuracy.class 3"
    entry = compared(two[0], measures=(name,))["measures"][name]
    assert entry["better"] == (better or "higher")
    assert [pair["winner"] for pair in entry["pairs"]] == [winner]


def test_encoders_of_one_name_are_told_apart_and_twins_are_named(audits: Path, two: tuple[str, str]) -> None:
    data = compared(two[0], str(audits / "together" / "abcd"))
    names = [entry["name"] for entry in data["encoders"]]
    assert names == ["a (ab)", "b (ab)", "a (abcd)", "b (abcd)", "c", "d"]
    assert any("a (ab) and a (abcd) are one encoder" in text for text in data["cautions"])
    for m in data["measures"].values():
        twins = next(p for p in m["pairs"] if (p["first"], p["second"]) == ("a (ab)", "a (abcd)"))
        assert twins["winner"] is None


def test_other_versions_are_a_caution(two: tuple[str, str]) -> None:
    change(two[1], lambda record: record["environment"].update(torch="1.0"))
    assert any("torch differs" in text and "1.0" in text for text in compared(*two)["cautions"])


def test_encoders_that_collapsed_are_shown_and_not_ranked(capsys, two: tuple[str, str]) -> None:
    best = compared(*two, correction="none")["measures"]["cosine_to_self"]["leader"]
    folder = next(
        f for f in two if any(e["name"] == best for e in json.loads(Path(f, "record.json").read_text())["encoders"])
    )

    def collapse(record: dict[str, Any]) -> None:
        next(e for e in record["encoders"] if e["name"] == best)["checks"]["collapse"]["status"] = "fail"

    change(folder, collapse)
    data = compared(*two)
    for name in data["measures"]:
        line = row(data, name, best)
        assert line["score"]["value"] is not None
        assert (line["rank"], line["best"]) == (None, False)
        assert line["why_not"] == "a check failed (nearly one representation for all images)"
        assert all(best not in (pair["first"], pair["second"]) for pair in data["measures"][name]["pairs"])
    assert data["comparisons"] == len(MEASURES) * 3
    code, out, _ = run(capsys, "compare", *two)
    assert code == 0
    assert f"{best} is not ranked: a check failed (nearly one representation for all images)" in out


def test_undefined_scores_have_no_rank_and_count_as_undecided(two: tuple[str, str]) -> None:
    def undefine(record: dict[str, Any]) -> None:
        m = record["encoders"][0]["measures"]["overlap_risk"]
        m["scores"][m["headline"]] |= {"value": None, "low": None, "high": None, "note": "nothing to see"}
        m = record["encoders"][0]["measures"]["breakaway_risk"]
        m["scores"][m["headline"]] |= {"low": None, "high": None}

    change(two[0], undefine)
    data = compared(*two)
    assert row(data, "overlap_risk", "a")["why_not"] == "nothing to see"
    assert row(data, "overlap_risk", "b")["rank"][1] <= 3
    assert data["comparisons"] == len(MEASURES) * 6
    for name in ("overlap_risk", "breakaway_risk"):
        undecided = [p for p in data["measures"][name]["pairs"] if "a" in (p["first"], p["second"])]
        assert [(p["p"], p["p_adjusted"], p["winner"]) for p in undecided] == [(None, None, None)] * 3


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "key", "value", "said"),
    [
        ("data", "fingerprint", "0" * 64, "images (fingerprint): "),
        ("data", "images", 259, "number of images: 260 and 259"),
        ("data", "attacked", 58, "attacked images: 60 and 58"),
        ("plan", "seed", 5, "seed: 0 and 5"),
        ("plan", "precision", "bfloat16", "precision: float32 and bfloat16"),
    ],
)
def test_other_conditions_are_refused(capsys, two: tuple[str, str], where, key, value, said) -> None:
    change(two[1], lambda record: record[where].update({key: value}))
    line = refused(capsys, "compare", *two)
    assert said in line
    assert all(folder in line for folder in two)


def test_audits_that_a_time_budget_cut_apart_are_told_how_to_be_alike(capsys, two: tuple[str, str]) -> None:
    rounds = {"number": 2, "of": 60, "budget": 5.0, "until": None, "before": 0.0, "answers_only": False, "look": 0}
    change(two[0], lambda record: record["run"].update(rounds=rounds | {"ended": "complete"}))
    change(two[1], lambda record: record["run"].update(rounds=rounds | {"ended": "budget"}))
    change(two[1], lambda record: record["data"].update(attacked=24))
    line = refused(capsys, "compare", *two)
    remedy = f"a time budget ended {two[1]!r} early; audit both with --budget none, or with --until '24 images'"
    assert line.endswith(f"{remedy} [mismatch]")


@pytest.mark.parametrize("text", ['{"schema": 1}', "[]", "{", '{"schema": 2, "plan": {}, "encoders": []}'])
def test_other_records_are_refused(capsys, two: tuple[str, str], text: str) -> None:
    Path(two[1], "record.json").write_text(text)
    line = refused(capsys, "compare", *two, status=3)
    assert two[1] in line
    assert "expected" in line


def test_a_record_of_a_newer_version_asks_for_an_upgrade(capsys, two: tuple[str, str]) -> None:
    change(two[1], lambda record: record.update(schema=99))
    line = refused(capsys, "compare", *two, status=3)
    assert two[1] in line
    assert "got schema 99; upgrade Holdfast: pip install --upgrade holdfast" in line


def test_too_little_to_compare_is_refused(capsys, two: tuple[str, str], tmp_path: Path) -> None:
    change(two[0], lambda record: record["encoders"].pop())
    assert "at least 2 audited encoders to compare, got 1" in refused(capsys, "compare", two[0])
    assert "twice" in refused(capsys, "compare", two[0], two[0] + "/")
    assert "nowhere cannot be read: " in refused(capsys, "compare", two[0], str(tmp_path / "nowhere"), status=3)


def test_another_radius_is_left_out_where_others_compare_and_refused_where_none_does(capsys, two) -> None:
    def widen(*names: str) -> Callable[[dict[str, Any]], None]:
        def edit(record: dict[str, Any]) -> None:
            for entry in record["encoders"]:
                for name in names:
                    entry["measures"][name]["part"]["ball"]["radius"] = 0.2

        return edit

    change(two[1], lambda record: record["encoders"].pop())
    change(two[1], widen("breakaway_risk"))
    data = compared(*two)
    [said] = data["left_out"]
    assert "breakaway_risk of c is left out: ball.radius is 0.2 and 0.05" in said
    assert row(data, "breakaway_risk", "c")["why_not"] == "not measured"
    assert row(data, "overlap_risk", "c")["rank"] is not None
    change(two[0], lambda record: record["encoders"].pop())
    change(two[1], widen("overlap_risk", "cosine_to_self"))
    for folder in two:
        change(folder, lambda record: [entry["measures"].pop("probe_accuracy") for entry in record["encoders"]])
    assert "ball.radius is 0.05 and 0.2" in refused(capsys, "compare", *two)


@pytest.mark.parametrize(("train", "field"), [(False, "labels"), (True, "training images")])
def test_other_labels_leave_out_what_reads_them(two: tuple[str, str], train: bool, field: str) -> None:
    def relabel(record: dict[str, Any]) -> None:
        record["encoders"].pop()
        if train:
            record["data"]["train"] = {"fingerprint": "f" * 64, "images": 9, "labels": "e" * 64}
        else:
            record["data"]["labels"] = "0" * 64

    change(two[1], relabel)
    data = compared(*two)
    [said] = data["left_out"]
    assert said.startswith(f"probe_accuracy of c is left out: {field} is ")
    assert row(data, "probe_accuracy", "c")["why_not"] == "not measured"
    assert row(data, "breakaway_risk", "c")["rank"] is not None


def damage_text(path: Path) -> None:
    path.write_text("no table")


def damage_rows(path: Path) -> None:
    pq.write_table(pq.read_table(path).slice(1), path)


def damage_columns(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.select(["id"]).append_column("x", pa.array([0.0] * len(table))), path)


@pytest.mark.parametrize("damage", [Path.unlink, damage_text, damage_rows, damage_columns])
def test_a_damaged_table_is_told_and_the_others_are_compared(capsys, two: tuple[str, str], damage) -> None:
    name = json.loads(Path(two[1], "record.json").read_text())["encoders"][0]["measures"]["overlap_risk"]["table"]
    damage(Path(two[1], name))
    code, out, _ = run(capsys, "compare", *two)
    assert code == 1
    assert "overlap_risk of c: expected" in " ".join(out.split())
    data = compared(*two)
    assert row(data, "overlap_risk", "c")["rank"] is None
    assert row(data, "overlap_risk", "d")["rank"] is not None
    assert row(data, "cosine_to_self", "c")["rank"] is not None


def test_a_table_outside_the_folder_is_not_read(two: tuple[str, str]) -> None:
    def escape(record: dict[str, Any]) -> None:
        m = record["encoders"][0]["measures"]["overlap_risk"]
        m["table"] = f"../ab/{m['table'].replace('/c/', '/a/')}"

    change(two[1], escape)
    assert "changed by hand" in " ".join(compared(*two)["problems"])


def test_an_encoder_that_failed_is_told(capsys, two: tuple[str, str]) -> None:
    change(two[1], lambda record: record["encoders"][0].update(error="out of luck"))
    code, out, _ = run(capsys, "compare", *two)
    assert code == 1
    assert "c is left out: it could not be audited (out of luck)" in " ".join(out.split())


# --- what is written ------------------------------------------------------------------------------

EVIL = '=HYPERLINK("x")|<script>alert(1)</script>[*]_{$%&#~^\\}'


@pytest.fixture
def written(capsys, two: tuple[str, str], tmp_path: Path) -> Path:
    """What the command writes about an encoder of an evil name, beside three others."""
    change(two[0], lambda record: record["encoders"][0].update(name=EVIL))
    folder = tmp_path / "written"
    folder.mkdir()
    files = {kind: str(folder / f"t.{kind}") for kind in ("csv", "parquet", "markdown", "latex", "html")}
    options = [text for kind, file in files.items() for text in (f"--{kind}", file)]
    options += ["--eval-results", str(folder / "hub"), "--benchmark", "some/bench", "--source-url", "https://x.org/y"]
    code, out, err = run(capsys, "compare", *two, *options)
    assert code == 0, err
    assert all(file in out for file in files.values())
    assert not list(folder.rglob("*.part"))
    return folder


def test_long_tables_hold_every_score(written: Path, two: tuple[str, str]) -> None:
    data = compared(*two)
    table = pq.read_table(written / "t.parquet").to_pylist()
    assert len(table) == sum(len(r["scores"]) for m in data["measures"].values() for r in m["rows"])
    heads = [line for line in table if line["headline"]]
    assert len(heads) == len(MEASURES) * 4
    assert {line["encoder"] for line in table} == {EVIL, "b", "c", "d"}
    for line in heads:
        source = row(data, line["measure"], line["encoder"])
        assert (line["value"], line["rank_low"], line["rank_high"]) == (source["score"]["value"], *source["rank"])
        if source["behind"]:
            assert line["difference_high"] == source["behind"]["difference"]["high"]
            assert line["p_adjusted"] == source["behind"]["p_adjusted"]
        else:
            assert line["leader"] == line["encoder"]
    with (written / "t.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["value"] for line in lines] == [str(line["value"]) for line in table]
    assert {line["encoder"] for line in lines} == {f"'{EVIL}", "b", "c", "d"}


def test_names_are_harmless_in_every_markup(written: Path) -> None:
    markdown = (written / "t.markdown").read_text()
    assert "<script>" not in markdown
    table = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len(table) == 6
    assert all(line.count("|") - line.count("\\|") == len(MEASURES) + 2 for line in table)
    latex = (written / "t.latex").read_text()
    assert r"\_\{\$\%\&\#\textasciitilde{}\textasciicircum{}\textbackslash{}\}" in latex
    assert latex.count("\\\\\n") == 5
    html = (written / "t.html").read_text()
    assert "<script>alert" not in html
    assert EVIL in Page(html).text


def test_what_the_hub_reads(written: Path, two: tuple[str, str]) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    data = compared(*two)
    files = sorted((written / "hub").iterdir())
    assert len(files) == 4
    entries = hub.parse_eval_result_entries(yaml.safe_load((written / "hub" / "c.yaml").read_text()))
    assert [entry.task_id for entry in entries] == list(data["measures"])
    for entry in entries:
        assert entry.value == row(data, entry.task_id, "c")["score"]["value"]
        assert (entry.dataset_id, entry.source_url) == ("some/bench", "https://x.org/y")
        assert "60 attacked" in entry.notes


def test_what_cannot_be_written_is_said(capsys, two: tuple[str, str], tmp_path: Path) -> None:
    assert "--benchmark" in refused(capsys, "compare", *two, "--eval-results", str(tmp_path / "hub"))
    hub = ("--eval-results", str(tmp_path / "hub"), "--benchmark", "some/bench")
    assert "https://" in refused(capsys, "compare", *two, *hub, "--source-url", "here")
    (tmp_path / "file").touch()
    assert "cannot write" in refused(capsys, "compare", *two, "--csv", str(tmp_path / "file" / "t.csv"))
    assert "name of a file" in refused(capsys, "compare", *two, "--csv", str(tmp_path) + "/")


def test_json_is_the_comparison_and_nothing_else(capsys, two: tuple[str, str]) -> None:
    code, out, _ = run(capsys, "compare", *two, "--json")
    assert code == 0
    assert json.loads(out) == compared(*two)


# --- the leaderboard ------------------------------------------------------------------------------


def test_a_leaderboard_groups_what_compares_and_drops_nothing(capsys, audits: Path, tmp_path: Path) -> None:
    everything = tmp_path / "all"
    shutil.copytree(audits, everything, ignore=shutil.ignore_patterns("cache", "pictures"))
    shutil.copytree(everything / "cd", everything / "deep" / "seeded")
    change(str(everything / "deep" / "seeded"), lambda record: record["plan"].update(seed=3))
    for name, text in {"old": '{"schema": 0}', "torn": '{"schema', "study": '{"schema": 2, "study": {}}'}.items():
        (everything / name).mkdir()
        (everything / name / "record.json").write_text(text)
    data = leaderboard(str(everything))
    assert [len(group["encoders"]) for group in data["groups"]] == [8, 2]
    assert [run["place"] for run in data["groups"][0]["runs"]] == ["ab", "cd", "together/abcd"]
    assert [one["place"] for one in data["unreadable"]] == ["old", "study", "torn"]
    assert not any(str(tmp_path) in json.dumps(one) for one in data["unreadable"])
    code, out, _ = run(capsys, "leaderboard", str(everything), "--out", str(tmp_path / "l.html"))
    assert code == 0
    assert "10 encoders in 2 groups" in out
    page = Page((tmp_path / "l.html").read_text())
    assert "expected a record of schema 2" in page.text
    assert len(page.all("tr")) > 12
    loads = [a.get("src") or a.get("href", "") for tag in ("script", "img", "link", "a") for a in page.all(tag)]
    assert all(not place or place.startswith(("#", "data:")) for place in loads)


@pytest.mark.parametrize("option", ["--correction", "--x", "--y", "--allow"])
def test_a_leaderboard_refuses_what_no_audit_has(capsys, audits: Path, tmp_path: Path, option: str) -> None:
    page = tmp_path / "l.html"
    assert "'nosuch'" in refused(capsys, "leaderboard", str(audits), option, "nosuch", "--out", str(page))
    assert not page.exists()


def test_a_lone_audit_has_scores_and_no_ranks(capsys, two: tuple[str, str], tmp_path: Path) -> None:
    change(two[0], lambda record: record["encoders"].pop())
    data = leaderboard(two[0])
    [group] = data["groups"]
    assert (group["comparisons"], len(group["measures"])) == (0, len(MEASURES))
    assert row(group, "overlap_risk", "a")["rank"] is None
    assert row(group, "overlap_risk", "a")["why_not"] is None
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "without any record.json" in refused(capsys, "leaderboard", str(empty), status=3)


def test_measures_of_another_radius_make_another_group(two: tuple[str, str]) -> None:
    def widen(record: dict[str, Any]) -> None:
        for entry in record["encoders"]:
            entry["measures"] = {"overlap_risk": copy.deepcopy(entry["measures"]["overlap_risk"])}
            entry["measures"]["overlap_risk"]["part"]["ball"]["radius"] = 0.2

    change(two[1], widen)
    data = leaderboard(str(Path(two[0]).parent))
    assert [[run["place"] for run in group["runs"]] for group in data["groups"]] == [["ab"], ["cd"]]


def test_remote_folders_are_compared_and_written(capsys, two: tuple[str, str]) -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    store = fsspec.filesystem("memory")
    for folder in two:
        store.put(folder, f"/compared/{Path(folder).name}", recursive=True)
    code, _, err = run(
        capsys, "compare", "memory://compared/ab", "memory://compared/cd", "--csv", "memory://compared/t.csv"
    )
    assert code == 0, err
    assert store.cat("/compared/t.csv").startswith(b"encoder,run,")
    assert [len(group["encoders"]) for group in leaderboard("memory://compared")["groups"]] == [4]


def test_curves_are_compared_image_by_image(capsys, tmp_path: Path) -> None:
    setting = {"measures": (BreakingRadius(steps=10, certified=0),), "images": 40, "attacked": 8}
    a, b = (str(audit(tmp_path / name, (name,), **setting)) for name in "ab")
    data = compared(a, b)
    ((name, m),) = data["measures"].items()
    (contrast,) = m["charts"]
    assert {contrast["first"], contrast["second"]} == {"a", "b"}
    assert contrast["first"] == m["leader"]
    assert contrast["chart"]["title"] == f"{contrast['first']} minus {contrast['second']}"
    # the same of both in one audit
    both = json.loads((audit(tmp_path / "ba", ("b", "a"), **setting) / "record.json").read_text())
    assert both["comparison"][name.partition("[")[0]]["charts"] == [contrast]
    # said in the terminal, drawn on the page
    page = tmp_path / "page.html"
    _, said, _ = run(capsys, "compare", a, b, "--html", str(page))
    assert contrast["chart"]["summary"] in " ".join(said.split())
    html = page.read_text(encoding="utf-8")
    assert "Which encoder holds more images</h3>" in html
    assert contrast["chart"]["summary"] in html
    # another population is refused in one line
    more = str(audit(tmp_path / "more", ("b",), **setting | {"images": 50}))
    assert "number of images: 40 and 50" in refused(capsys, "compare", a, more)
