"""A run held against its baseline as the encoder behind an index: neighbours kept, thresholds, canaries."""

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from test_command_line import refused, run

import holdfast
from holdfast.comparison.records import open_run
from holdfast.core import Encoder
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder
from holdfast.workflows.index_gate import _look_alikes

OLD, NEW = "zoo:digits-simclr", "zoo:digits-simclr-adv"
WHAT = {"images": 160, "attacked": 2, "measures": "uniformity", "quiet": True}
ENDS = ("value", "low", "high")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("index-gate")
    for name, spec in (("old", OLD), ("new", NEW)):
        holdfast.audit(spec, "digits", out=str(folder / name), batch_size=48, **WHAT)
    return str(folder / "old"), str(folder / "new")


def ids(folder: str) -> list[str]:
    known = open_run(folder)
    return known.table(known.record.data.table)[0]


def canaries(path: Path, *lines: str) -> str:
    path.write_text("first,second,expected\n" + "\n".join(lines))
    return str(path)


def test_stored_representations_say_what_a_comparison_of_the_encoders_says(runs: tuple[str, str]) -> None:
    old, new = runs
    direct = holdfast.compare_index(OLD, NEW, "digits", images=160, k=[3, 7], rate=0.01, quiet=True)
    checked = holdfast.check(
        new, baseline=old, require=["overlap@3 > 1 %", "overlap@7.low > 0.01", "distance_scale.value > 0.1"], rate=0.01
    )
    (compared,) = checked.data["index"]
    shared = {name: entry for name, entry in direct["measures"].items() if "recall" not in name}
    assert compared["measures"].keys() == shared.keys()
    for name, entry in shared.items():
        for title, score in entry["scores"].items():  # one batch of images or several: equal but for rounding
            same = compared["measures"][name]["scores"][title]
            assert [same[key] or 0 for key in ENDS] == pytest.approx([score[key] or 0 for key in ENDS], rel=1e-6)
    assert len(compared["translation"]) == len(direct["translation"]) > 10
    assert checked.passed
    assert [finding["met"] for finding in checked.findings] == [True] * 3
    assert "first 7 neighbours by ℓ2 distance stay" in " ".join(str(checked).split())
    assert "first 7 neighbours by ℓ2 distance stay" in checked.markdown()
    assert "first 7 neighbours by ℓ2 distance stay" in checked._repr_html_()


def test_a_requirement_that_is_not_met_fails_the_check(capsys, runs: tuple[str, str]) -> None:
    old, new = runs
    code, out, _ = run(capsys, "check", new, "--baseline", old, "--allow-drop", "90%", "--require", "overlap@10 > 99 %")
    assert code == 1
    assert "✗ overlap@10 > 99 %" in out
    assert "FAILED: nothing worse; 1 of 1 requirement not met" in out


def test_a_broken_canary_fails_the_check_and_is_named(capsys, runs: tuple[str, str], tmp_path: Path) -> None:
    old, new = runs
    names, images = ids(old), open_images("digits", images=160).batch(0, 160)
    direct = holdfast.compare_index(OLD, NEW, "digits", images=160, rate=0.05, quiet=True)
    limits = direct["measures"]["threshold"]["scores"]
    with torch.no_grad():
        before, after = (open_encoder(spec)(images).double() for spec in (OLD, NEW))
    apart = torch.cdist(before, before) >= limits["old"]["value"]
    moved = apart & (torch.cdist(after, after) < limits["new"]["value"])
    first, second = moved.triu(1).nonzero()[0].tolist()
    file = canaries(tmp_path / "canaries.csv", f"{names[first]},{names[second]},apart")
    junit = tmp_path / "junit.xml"
    line = ("check", new, "--baseline", old, "--allow-drop", "90%", "--canaries", file, "--rate", "0.05")
    code, out, _ = run(capsys, *line, "--json", "--junit", str(junit))
    data = json.loads(out)
    assert code == 1
    assert data["verdict"] == "failed"
    assert data["index"][0]["canaries"][0]["outcome"] == "broken"
    (case,) = [case for case in ElementTree.parse(junit).iter("testcase") if case.get("name") == "canaries"]
    assert f"{names[first]} and {names[second]}, expected apart, are together now" in case[0].text

    mended = canaries(tmp_path / "mended.csv", f"{names[first]},{names[second]},together")
    outcome = holdfast.check(new, baseline=old, allow_drop="90%", canaries=mended, rate=0.05)
    assert outcome.passed


def test_what_is_not_there_is_said_in_one_line(capsys, runs: tuple[str, str], tmp_path: Path) -> None:
    old, new = runs
    require = ("--require", "overlap@3 > 1 %")
    file = canaries(tmp_path / "c.csv", "nobody,nothing,apart")
    assert "add --baseline RUN" in refused(capsys, "check", new, *require)
    assert "add --baseline RUN" in refused(capsys, "check", new, "--canaries", file)
    against = ("check", new, "--baseline", old)
    assert "canaries, line 2" in refused(capsys, *against, "--canaries", file, "--rate", "0.05")
    assert "k: expected fewer neighbours" in refused(capsys, *against, "--require", "overlap@159 > 1 %")
    assert "rate: " in refused(capsys, *against, *require, "--rate", "1e-6")
    assert "divergence" in refused(capsys, *against, *require, "--divergence", "euclid")
    assert "threshold: " in refused(capsys, *against, *require, "--threshold", "1e9")

    # too few images for a threshold that nobody stated
    two = [str(tmp_path / name) for name in ("few-old", "few-new")]
    for folder, spec in zip(two, (OLD, NEW), strict=True):
        holdfast.audit(spec, "digits", out=folder, **WHAT | {"images": 60})
    line = ("check", two[1], "--baseline", two[0], "--require", "false_positives.kept < 1 %")
    assert "leaves 1 of 1,770 pairs of 60 images" in refused(capsys, *line)

    bare = shutil.copytree(old, tmp_path / "bare")  # as a baseline is kept in a repository
    shutil.rmtree(bare / "cache")
    assert "keep the folder `cache` beside the record" in refused(
        capsys, "check", new, "--baseline", str(bare), *require, status=3
    )
    assert holdfast.check(new, baseline=str(bare), allow_drop="90%").data["index"] == []

    damaged = shutil.copytree(old, tmp_path / "damaged")
    clean = next(e for e in open_run(old).record.encoders[0].observations if e.part["name"] == "clean")
    shard = next((damaged / clean.shards).glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-4] + b"\0\1\2\3")
    assert "is damaged" in refused(capsys, "check", new, "--baseline", str(damaged), *require, status=3)

    others = str(tmp_path / "others")
    holdfast.audit(OLD, "digits", out=others, seed=1, **WHAT)
    assert "to be on the same images" in refused(capsys, "check", new, "--baseline", others, *require)


def test_pictures_that_look_alike_are_no_pairs_of_different_images() -> None:
    images = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    images[[7, 21, 30]] = images[3].clone()
    encoder = Encoder(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 8)), mean=0, std=1, name="net")
    record = holdfast.audit(encoder, images, **WHAT | {"images": 40})
    shown = open_images(images, images=40).batch(0, 40).flatten(1)
    equal = (shown[:, None] == shown).all(2).triu(1).nonzero().tolist()
    assert len(equal) == 6
    assert sorted(_look_alikes(record.run).tolist()) == sorted(equal)
    without = holdfast.audit(encoder, images, skip_duplicates=True, **WHAT | {"images": None})
    assert len(without.data["data"]["duplicates"]) == 3
    assert _look_alikes(without.run).tolist() == []
