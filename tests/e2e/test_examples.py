"""The examples run as they are described, on the embedded digits."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from holdfast.core import Missing
from holdfast.sources.data.arrays import Arrays

FILE = Path(__file__).parents[2] / "examples/worst_noise.py"
TINY = ["--epochs", "2", "--learning", "1", "--images", "60", "--attacked", "10", "--structures", "input"]


def loaded():
    spec = importlib.util.spec_from_file_location("worst_noise", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


example = loaded()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    assert example.main([*TINY, "--out", str(folder)]) == 0
    return folder


def records(folder: Path) -> dict[str, dict]:
    return {view: json.loads((folder / view / "record.json").read_text()) for view in ("classifier", "features")}


def headlines(record: dict) -> dict[str, dict]:
    measures = record["encoders"][0]["measures"]
    return {name: entry["scores"][entry["headline"]] for name, entry in measures.items()}


@pytest.mark.slow
def test_both_views_are_audited_and_reported(run):
    for view, record in records(run).items():
        assert record["failures"] == []
        assert (run / view / "report.html").stat().st_size > 100_000
        assert record["data"]["labels"] is not None if view == "classifier" else record["data"]["labels"] is None
    found = records(run)
    assert found["classifier"]["encoders"][0]["dim"] == 10
    assert found["features"]["encoders"][0]["dim"] == 128
    assert [len(headlines(found[view])) for view in found] == [7, 7]


@pytest.mark.slow
def test_the_strongest_attack_leaves_the_least_standing(run):
    for record in records(run).values():
        found = headlines(record)
        least = found.pop("adversarial_robustness[attack=ensemble]")
        assert all(least["value"] <= score["value"] for score in found.values())
        assert all(score["low"] < score["high"] for score in found.values())


@pytest.mark.slow
def test_the_same_command_goes_on_where_it_stopped(run, monkeypatch):
    before = {view: headlines(record) for view, record in records(run).items()}
    monkeypatch.setattr(example, "train", lambda *rest: pytest.fail("the classifier was trained again"))
    assert example.main([*TINY, "--out", str(run)]) == 0
    for view, record in records(run).items():
        assert record["run"]["resumed_shards"] > 0
        assert headlines(record) == before[view]


def test_another_seed_trains_another_classifier(tmp_path):
    x, y = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 10
    first, again, other = (example.train(x, y, 1, seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])


def test_images_are_moved_not_changed():
    x = torch.zeros(200, 3, 16, 16)
    x[:, :, 8, 8] = 1
    moved = example.shifted(x, torch.Generator().manual_seed(0))
    assert (moved.sum((1, 2, 3)) == 3).all()
    places = moved[:, 0].flatten(1).argmax(1)
    assert set((places // 16).tolist()) == {6, 7, 8, 9, 10}
    assert set((places % 16).tolist()) >= {5, 6, 9, 10}  # 5 of a mirrored one


def test_one_file_alone_or_without_labels_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        example.main(["--train", "some.npz"])
    assert "or neither" in capsys.readouterr().err
    with pytest.raises(Missing):
        example.everything(Arrays(torch.zeros(3, 8, 8), layout="NHW"))
