"""A study of corrupted pre-training data, against accuracies that are counted here from the trained encoders."""

import dataclasses
import io
import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from rich.console import Console

from holdfast.core import HoldfastError, Rng, Threat
from holdfast.parts.probes.knn import Knn
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.global_shuffle import GlobalShuffle
from holdfast.report.documents.study import document, tables
from holdfast.report.numbers import score
from holdfast.report.render import print_document, to_markdown
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder
from holdfast.storage.entry import as_json, read_json
from holdfast.storage.study import StudyRecord, StudyRow
from holdfast.training import loop
from holdfast.training.recipe_file import make_recipe
from holdfast.workflows.study.file import read_study
from holdfast.workflows.study.plan import ORIGINAL, TABLE_2, Column, Study
from holdfast.workflows.study.run import run_study
from holdfast.workflows.study.scores import over_trainings, score_row

DATA, TAIL = "digits?part=train", "digits?part=train&balance=long_tail&ratio=5"
RECIPE = make_recipe(
    {
        "encoder": "zoo:digits_cnn", "data": DATA, "images": 200, "method": "supervised", "epochs": 2, "batch_size": 50,
        "views": {"crop": [1, 1], "flip": 0},
    }
)  # fmt: skip
GAMMA, SHUFFLE = Column("γ 5", Gamma(5.0)), Column("G4x4", GlobalShuffle(grid=4))
STUDY = Study(
    {"Sup": RECIPE},
    "digits",
    (GAMMA, SHUFFLE, Column("tail", data=TAIL), Column("lost", data="digits?part=none")),
    test_images=100,
    probes=(Knn(k=5),),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("study")
    run_study(STUDY, place, command="holdfast study study.toml")
    return place


@pytest.fixture(scope="module")
def record(folder: Path) -> StudyRecord:
    return read_json(json.loads((folder / "study.json").read_text(encoding="utf-8")), StudyRecord)


def row(record: StudyRecord, setting: str, method: str = "Sup") -> StudyRow:
    return next(one for one in record.rows if (one.method, one.setting) == (method, setting))


def accuracy(weights: Path | None, train: str, learned: Threat | None, tested: Threat | None) -> float:
    """How often five weighted neighbours among the training images name the class of a test image."""
    encoder = open_encoder("zoo:digits_cnn" if weights is None else f"zoo:digits_cnn?weights={weights}")

    def seen(spec: str, size: int, threat: Threat | None) -> tuple[torch.Tensor, torch.Tensor]:
        images = open_images(spec, images=size, seed=0)
        x = images.batch(0, len(images))
        x = x if threat is None else threat.sample(x, Rng(0, ids=tuple(images.ids)))
        with torch.no_grad():
            return F.normalize(encoder(x).double(), dim=1), torch.tensor(images.labels)

    (bank, classes), (reps, labels) = seen(train, 200, learned), seen("digits", 100, tested)
    near, places = (reps @ bank.T).topk(5, dim=1)
    votes = torch.zeros(len(reps), 10, dtype=torch.float64)
    votes.scatter_add_(1, classes[places], (near / 0.1 - 10).exp())
    return float((votes.argmax(1) == labels).double().mean())


@pytest.mark.parametrize("column", [GAMMA, SHUFFLE], ids=lambda c: c.title)
def test_accuracies_are_those_of_the_trained_encoders(record: StudyRecord, folder: Path, column: Column) -> None:
    slug = {"γ 5": "5", "G4x4": "G4x4"}[column.title]
    weights, c = folder / "Sup" / slug / "encoder.safetensors", column.corruption
    expected = {"same": (c, c), "clean": (None, None), "moved": (None, c)}
    for setting, (learned, tested) in expected.items():
        found = row(record, setting).accuracy[column.title].value
        assert found == pytest.approx(accuracy(weights, DATA, learned, tested)), setting
    assert row(record, "same", "untrained").accuracy[column.title].value == accuracy(None, DATA, c, c)


def test_other_data_teach_the_probe_in_one_setting_only(record: StudyRecord, folder: Path) -> None:
    weights = folder / "Sup" / "tail" / "encoder.safetensors"
    assert row(record, "same").accuracy["tail"].value == pytest.approx(accuracy(weights, TAIL, None, None))
    assert row(record, "clean").accuracy["tail"].value == pytest.approx(accuracy(weights, DATA, None, None))


def test_encoders_learned_from_their_version_of_the_images(folder: Path, tmp_path: Path) -> None:
    alone = loop.train(dataclasses.replace(RECIPE, corruption=SHUFFLE.corruption), tmp_path)
    same = open_encoder(f"zoo:digits_cnn?weights={folder / 'Sup' / 'G4x4' / 'encoder.safetensors'}")
    other = open_encoder(f"zoo:digits_cnn?weights={folder / 'Sup' / 'Orig' / 'encoder.safetensors'}")
    assert alone.encoder.refresh_fingerprint() == same.fingerprint != other.fingerprint


def test_a_column_that_is_not_averaged_is_left_out_of_the_average() -> None:
    rights = {"Orig": [1, 1, 1, 1], "γ 5": [1, 1, 1, 0], "G4x4": [1, 1, 0, 0]}
    found = {title: {("knn", "same"): torch.tensor([right]).double()} for title, right in rights.items()}
    study = dataclasses.replace(STUDY, columns=(GAMMA, dataclasses.replace(SHUFFLE, averaged=False)))
    scored = score_row(study, "Sup", found, "knn", "same")
    assert scored.average is not None
    assert scored.average.value == pytest.approx(1 / 4)
    assert scored.drop["G4x4"].value == pytest.approx(1 / 2)
    with pytest.raises(HoldfastError, match="at least one column whose"):
        dataclasses.replace(STUDY, columns=(dataclasses.replace(SHUFFLE, averaged=False),))


@pytest.mark.parametrize("setting", ["same", "clean", "moved"])
def test_delta_is_the_share_that_is_lost(record: StudyRecord, setting: str) -> None:
    found = row(record, setting)
    shares = {title: score.value for title, score in found.accuracy.items()}
    original = shares[ORIGINAL.title]
    assert original == row(record, "clean").accuracy[ORIGINAL.title].value  # nothing befalls its images
    for title, drop in found.drop.items():
        assert drop.value == pytest.approx((original - shares[title]) / original)
        assert drop.low < drop.value < drop.high
    mean = (shares["γ 5"] + shares["G4x4"]) / 2  # the corruptions, not other data
    assert found.average is not None
    assert found.average.value == pytest.approx(1 - mean / original)


def test_a_part_that_fails_is_said_and_the_others_go_on(record: StudyRecord) -> None:
    found = row(record, "same")
    assert "none" in found.problems["lost"]
    assert "lost" not in found.accuracy
    console = Console(width=200, record=True, file=io.StringIO())
    print_document(document(record), console)
    text = console.export_text()
    assert "failed" in text
    assert "Sup, lost: " in text


@pytest.mark.slow
def test_done_parts_are_not_trained_again(folder: Path, record: StudyRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object) -> None:
        raise AssertionError("a step was made")

    monkeypatch.setattr(loop._Training, "_one_step", refuse)
    assert json.loads(json.dumps(run_study(STUDY, folder)))["rows"] == as_json(record)["rows"]


def test_one_training_says_so(record: StudyRecord) -> None:
    console = Console(width=400, record=True, file=io.StringIO())
    print_document(document(record), console)
    for text in (console.export_text(), to_markdown(document(record))):
        assert "over test images, given the trained encoders" in text
        assert "one training each (seed 0)" in text
    assert all(one.trainings is None for one in record.rows)


def test_several_trainings_have_an_interval_of_their_own(tmp_path: Path) -> None:
    """Against accuracies of trainings that are studied one by one, on the same images whatever their seed is."""
    one = dataclasses.replace(STUDY, columns=(GAMMA,), test_images=60)
    alone = []
    for seed in (3, 4):
        apart = dataclasses.replace(one, recipes={"Sup": dataclasses.replace(RECIPE, seed=seed)})
        alone.append(row(run_study(apart, tmp_path / str(seed)).found, "same"))
    record = run_study(dataclasses.replace(one, seeds=(3, 4)), tmp_path / "both").found
    both = row(record, "same")
    assert both.trainings is not None
    for part, title in (("accuracy", "Orig"), ("accuracy", "γ 5"), ("drop", "γ 5")):
        first, second = (getattr(found, part)[title].value for found in alone)
        between = getattr(both.trainings, part)[title]
        assert between.value == pytest.approx((first + second) / 2)
        half = 12.706 * abs(first - second) / 2  # t_1, and s / √2 of two numbers
        if first != second:
            ends = ((first + second) / 2 - half, (first + second) / 2 + half)
            ends = ends if part == "drop" else (max(ends[0], 0), min(ends[1], 1))
            assert (between.low, between.high) == pytest.approx(ends, rel=1e-3)
        assert "Student t over 2 trainings" in between.interval
    assert both.accuracy["Orig"].value == pytest.approx(both.trainings.accuracy["Orig"].value)
    assert both.trainings.average == both.trainings.drop["γ 5"]  # of one column
    assert row(record, "same", "untrained").trainings is None
    audits = [json.loads(path.read_text())["data"]["fingerprint"] for path in tmp_path.rglob("audit-*/record.json")]
    assert len(set(audits)) == 1  # the seed of a training changes no image that is tested
    assert "over trainings" in to_markdown(document(record))
    assert "seeds 3, 4" in to_markdown(document(record))


def test_trainings_that_agree_have_no_interval() -> None:
    agreed = over_trainings([0.5, 0.5, 0.5])
    assert agreed is not None
    assert agreed.low is None
    assert over_trainings([0.5]) is None


def test_the_table_has_the_columns_of_the_paper(record: StudyRecord) -> None:
    table = next(tables(record))
    head, lines = table.head, table.rows
    assert head == ["method", "Orig", "γ 5", "G4x4", "tail", "lost", "Avg Δ ↓"]
    assert [line[0] for line in lines] == ["untrained", "  Δ", "Sup", "  Δ"]
    found = row(record, "same")
    assert lines[3][1:] == ["", *(score(found.drop[c], "share") for c in head[2:5]), "", score(found.average, "share")]
    assert table.title.startswith("knn, same")
    assert "holdfast study study.toml" in to_markdown(document(record))
    assert [column.title for column in TABLE_2] == ["γ 0.2", "G4x4", "G8x8", "L4x4", "L8x8"]


FILE = """
encoder = "zoo:digits_cnn"
data = "digits?part=train"
test = "digits"
epochs = 3
probes = ["linear", {name = "knn", k = 20}]
[optimiser]
name = "sgd"
rate = 0.1
[[methods]]
title = "Sup"
method = "supervised"
optimiser = {rate = 0.5}
[[methods]]
title = "SimCLR, augmented first"
method = {name = "simclr", temperature = 0.2}
corrupt = "after"
"""


def test_a_file_says_what_methods_share_and_what_is_their_own(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(FILE)
    study = read_study(tmp_path / "study.toml", data=TAIL)
    first, second = study.recipes.values()
    assert (first.optimiser.name, first.optimiser.rate, second.optimiser.rate) == ("sgd", 0.5, 0.1)
    assert (first.data, second.data, first.corrupt, second.corrupt) == (TAIL, TAIL, "before", "after")
    assert study.columns == TABLE_2
    assert study.probes[1] == Knn(k=20)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('test = "digits"', "", "'test'"),
        ("epochs = 3", "epoch = 3", "did you mean 'epochs'"),
        ('title = "Sup"', "", "title"),
        ('title = "SimCLR, augmented first"', 'title = "Sup"', "twice"),
        ("[optimiser]", '[[columns]]\ntitle = "G"\ncorrupted = "gamma"\n[optimiser]', "did you mean 'corruption'"),
        ("[optimiser]", '[[columns]]\ntitle = "G"\n[optimiser]', "neither"),
        ("[optimiser]", '[[columns]]\ntitle = "G"\ndata = "x"\ncorruption = "gamma"\n[optimiser]', "both"),
        ("[optimiser]", '[[columns]]\ntitle = "Orig"\ndata = "x"\n[optimiser]', "different titles"),
        ("epochs = 3", 'corruption = "gamma"', "corruptions are columns"),
        ('corrupt = "after"', "seed = 1", "same encoder, data, images and seed"),
        ("epochs = 3", "epochs = ", "not TOML"),
    ],
)
def test_a_file_that_says_what_nobody_knows_is_refused(tmp_path: Path, before: str, after: str, said: str) -> None:
    assert before in FILE
    (tmp_path / "study.toml").write_text(FILE.replace(before, after))
    with pytest.raises(HoldfastError, match=said):
        read_study(tmp_path / "study.toml")
