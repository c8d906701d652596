"""A study of corrupted pre-training data, against accuracies that are counted here from the trained encoders."""

import dataclasses
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from rich.console import Console
from scipy import stats

from holdfast.core import HoldfastError, Rng, Threat
from holdfast.numerics import statistics
from holdfast.parts.probes.knn import Knn
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.global_shuffle import GlobalShuffle
from holdfast.report.documents.study import document, tables
from holdfast.report.numbers import score
from holdfast.report.render import print_document, to_markdown
from holdfast.runtime.errors import BadData, BadValue, Conflict, Mismatch, Missing, UnknownName
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder
from holdfast.storage.entry import as_json, read_json
from holdfast.storage.study import StudyRecord, StudyRow
from holdfast.training import loop
from holdfast.training.recipe_file import make_recipe
from holdfast.workflows.study.file import read_study
from holdfast.workflows.study.plan import ORIGINAL, TABLE_2, Column, Study
from holdfast.workflows.study.run import run_study
from holdfast.workflows.study.scores import score_row

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
    with pytest.raises(BadValue, match="study"):
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
    scores = [score for one in record.rows for score in (*one.accuracy.values(), *one.drop.values())]
    assert not any("other trainings" in score.interval for score in scores)


@pytest.mark.slow
def test_several_trainings_have_one_interval_over_both(tmp_path: Path) -> None:
    """Against accuracies of trainings that are studied one by one, on the same images whatever their seed is."""
    one = dataclasses.replace(STUDY, columns=(GAMMA,), test_images=60)
    alone = []
    for seed in (3, 4):
        apart = dataclasses.replace(one, recipes={"Sup": dataclasses.replace(RECIPE, seed=seed)})
        alone.append(row(run_study(apart, tmp_path / str(seed)).found, "same"))
    record = run_study(dataclasses.replace(one, seeds=(3, 4)), tmp_path / "both").found
    both = row(record, "same")
    for title in ("Orig", "γ 5"):
        first, second = (found.accuracy[title] for found in alone)
        between = both.accuracy[title]
        assert between.value == pytest.approx((first.value + second.value) / 2)
        assert between.high - between.low > 0.8 * min(first.high - first.low, second.high - second.low)
        assert "about other images and other trainings" in between.interval
    assert both.average == both.drop["γ 5"]  # of one column
    assert "about other images and other trainings" in both.drop["γ 5"].interval
    assert "trainings (" not in row(record, "same", "untrained").accuracy["Orig"].interval
    audits = [json.loads(path.read_text())["data"]["fingerprint"] for path in tmp_path.rglob("audit-*/record.json")]
    assert len(set(audits)) == 1  # the seed of a training changes no image that is tested
    text = to_markdown(document(record))
    assert "other images and other trainings at once" in text
    assert "2 trainings (seeds 3, 4)" in text


Drawn = tuple[np.ndarray, float]


def draw(runs: int, k: int, n: int, shares: tuple[float, float], images: float, trainings: float) -> Drawn:
    """Answers [runs, version, training, image] of a probit model with effects of both; and the true Δ.

    An image is as hard in both versions; a training of one version is another than that of the other.
    """
    random, both = np.random.default_rng([k, n]), math.hypot(1, images, trainings)
    levels = stats.norm.ppf(shares)[:, None, None] * both
    latent = levels + random.normal(size=(runs, 2, k, n)) + images * random.normal(size=(runs, 1, 1, n))
    return (latent + trainings * random.normal(size=(runs, 2, k, 1)) > 0).astype(float), 1 - shares[1] / shares[0]


def scored(answers: np.ndarray) -> StudyRow:
    """Score the answers of both versions."""
    study = dataclasses.replace(STUDY, columns=(GAMMA,))
    found = {
        title: {("knn", "same"): torch.from_numpy(hits)} for title, hits in zip(("Orig", "γ 5"), answers, strict=True)
    }
    return score_row(study, "Sup", found, "knn", "same")


def crossed_error(values: np.ndarray) -> float:
    """Standard error of the mean over rows and columns, both sampled: rows + columns - what is counted twice."""
    k, n = values.shape
    rows, columns = values.mean(1, keepdims=True), values.mean(0, keepdims=True)
    rest = ((values - rows - columns + values.mean()) ** 2).sum() / ((k - 1) * (n - 1))
    return math.sqrt(rows.var(ddof=1) / k + columns.var(ddof=1) / n - rest / (k * n))


def test_the_interval_over_both_is_that_of_the_two_way_variance() -> None:
    """Owen's estimator for crossed effects, of so many trainings that Student's quantile is nearly the normal one.

    Δ is linearised; by chance the trainings that were drawn go together a little, which the interval does not use.
    """
    answers, _ = draw(1, 80, 3000, (0.8, 0.6), images=1.0, trainings=0.3)
    row = scored(answers[0])
    original, changed = answers[0]
    linear = (changed.mean() / original.mean() * original - changed) / original.mean()
    for found, values, close in ((row.accuracy["Orig"], original, 0.03), (row.drop["γ 5"], linear, 0.15)):
        assert (found.high - found.low) / 2 == pytest.approx(1.99 * crossed_error(values), rel=close)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("shares", [(0.5, 0.3), (0.99, 0.95), (0.1, 0.02)], ids=str)
@pytest.mark.parametrize(
    ("k", "n", "images", "trainings", "runs"),
    [
        (3, 100, 1.0, 0.3, 60),
        *(
            pytest.param(k, n, 1.0, b, 300, marks=pytest.mark.slow)
            for k in (2, 5)
            for n in (100, 500)
            for b in (0, 0.4)
        ),
    ],
    ids=str,
)
def test_the_truth_is_inside_as_often_as_promised(
    k: int, n: int, images: float, trainings: float, runs: int, shares: tuple[float, float]
) -> None:
    """At least as often as 0.95 less three standard deviations of the simulated level."""
    samples, delta = draw(runs, k, n, shares, images, trainings)
    rows = [scored(answers) for answers in samples]
    least = 0.95 - 3 * math.sqrt(0.05 * 0.95 / runs)
    assert np.mean([r.accuracy["Orig"].low <= shares[0] <= r.accuracy["Orig"].high for r in rows]) >= least
    drops = [r.drop["γ 5"] for r in rows]
    known = [drop for drop in drops if drop.value is not None]
    assert len(known) > runs / 2
    assert np.mean([drop.low <= delta <= drop.high for drop in known]) >= least


def test_trainings_must_count() -> None:
    """What it is for: over images alone the truth of 0.95 is kept half of the time where trainings differ."""
    samples, _ = draw(60, 5, 1000, (0.6, 0.5), images=0.3, trainings=0.3)
    alone = [statistics.mean(torch.from_numpy(answers[0].mean(0))) for answers in samples]
    both = [scored(answers).accuracy["Orig"] for answers in samples]
    assert np.mean([s.low <= 0.6 <= s.high for s in alone]) < 0.6
    assert np.mean([s.low <= 0.6 <= s.high for s in both]) > 0.86


def test_trainings_that_agree_leave_the_interval_over_images() -> None:
    answers = np.random.default_rng(0).integers(0, 2, (2, 1, 50)).astype(float)
    several, one = scored(np.repeat(answers, 3, axis=1)), scored(answers)
    assert several.accuracy["Orig"].value == one.accuracy["Orig"].value
    assert "all 3 trainings have the same share" in several.accuracy["Orig"].note
    assert several.accuracy["Orig"].low is not None


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_all_wrong_or_all_right(right: float) -> None:
    row = scored(np.full((2, 3, 40), right))
    found = row.accuracy["Orig"]
    assert (found.value, found.high - found.low > 0.05) == (right, True)
    assert (row.drop["γ 5"].value is None) == (right == 0)


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
    ("before", "after", "kind", "said"),
    [
        ('test = "digits"', "", BadValue, "'test'"),
        ("epochs = 3", "epoch = 3", UnknownName, r"'epochs'\?"),
        ('title = "Sup"', "", BadValue, "title"),
        ('title = "SimCLR, augmented first"', 'title = "Sup"', BadValue, "twice"),
        ("[optimiser]", '[[columns]]\ntitle = "G"\ncorrupted = "gamma"\n[optimiser]', UnknownName, r"'corruption'\?"),
        ("[optimiser]", '[[columns]]\ntitle = "G"\n[optimiser]', Missing, "neither"),
        ("[optimiser]", '[[columns]]\ntitle = "G"\ndata = "x"\ncorruption = "gamma"\n[optimiser]', Conflict, "both"),
        ("[optimiser]", '[[columns]]\ntitle = "Orig"\ndata = "x"\n[optimiser]', BadValue, "titles"),
        ("epochs = 3", 'corruption = "gamma"', Conflict, "corruptions"),
        ('corrupt = "after"', "seed = 1", Mismatch, "seed"),
        ("epochs = 3", "epochs = ", BadData, "TOML"),
    ],
)
def test_a_file_that_says_what_nobody_knows_is_refused(
    tmp_path: Path, before: str, after: str, kind: type[HoldfastError], said: str
) -> None:
    assert before in FILE
    (tmp_path / "study.toml").write_text(FILE.replace(before, after))
    with pytest.raises(kind, match=said):
        read_study(tmp_path / "study.toml")
