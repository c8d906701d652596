"""Few-shot accuracy in whole audits: against few-shot probes, and with the spread of both images and draws."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

from holdfast.auditing.plan import Plan
from holdfast.core import Encoder, Measure
from holdfast.numerics.rng import Rng
from holdfast.parts.measures.classifiers.few_shot_accuracy import FewShotAccuracy
from holdfast.parts.probes.knn import Knn
from holdfast.parts.probes.linear import Linear
from holdfast.parts.probes.logits import Logits
from holdfast.parts.probes.shared.shots import draw_shots
from holdfast.parts.threats.global_shuffle import GlobalShuffle
from holdfast.runtime.errors import BadValue, Missing
from holdfast.sources.data import open_images
from json_records import run_audit

SHUFFLE = GlobalShuffle(4)


def saved(folder: Path, part: str, count: int) -> str:
    images = open_images(f"digits?part={part}")
    path = folder / f"{part}.npz"
    np.savez(path, images=images.batch(0, count).numpy()[:, 0], labels=images.labels[:count])
    return str(path)


def audit(folder: Path, *measures: Measure, **plan) -> dict:
    encoder = Encoder(nn.Flatten(), mean=0, std=1)
    asked = Plan(("pixels",), saved(folder, "heldout", 120), measures, train=saved(folder, "train", 400), **plan)
    return run_audit(asked, folder / "out", encoders={"pixels": encoder}, overwrite=True)


def entries(record: dict) -> list[dict]:
    assert record["failures"] == []
    return list(record["encoders"][0]["measures"].values())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("shots")
    wanted = FewShotAccuracy(Knn(1), shots=(1, 3, 10), draws=4), FewShotAccuracy(Linear(), shots=(10,), draws=2)
    return folder, audit(folder, *wanted, seed=5)


def test_table_and_scores_are_those_of_the_probe_on_the_drawn_images(run) -> None:
    folder, record = run
    table = pq.read_table(folder / "out" / entries(record)[0]["table"])
    train, test = open_images(str(folder / "train.npz"), seed=5), open_images(str(folder / "heldout.npz"), seed=5)
    bank, labels = train.batch(0, 400).flatten(1), torch.tensor(train.labels)
    queries, truth = test.batch(0, 120).flatten(1), torch.tensor(test.labels)
    assert table["id"].to_pylist() == test.ids
    shares = torch.zeros(120, dtype=torch.float64)
    for draw in range(4):
        places = draw_shots(labels, 3, Rng(5, ("few_shot_accuracy", str(draw))))
        right = Knn(1).fit(bank[places], labels[places]).ranks(queries, truth) == 0
        assert table[f"draw {draw + 1}@3 shots"].to_pylist() == right.double().tolist()
        shares += right / 4
    assert table["right@3 shots"].to_pylist() == shares.tolist()
    score = entries(record)[0]["scores"]["3 shots"]
    assert score["value"] == pytest.approx(float(shares.mean()))
    assert score["low"] < score["value"] < score["high"]
    assert "over images and repetitions" in score["interval"]


def test_more_shots_are_better_and_the_last_is_the_headline(run) -> None:
    first, second = entries(run[1])
    values = [score["value"] for score in first["scores"].values()]
    assert list(first["scores"]) == ["1 shot", "3 shots", "10 shots"]
    assert values == sorted(values)
    assert values[0] > 0.3
    assert values[-1] > values[0] + 0.2
    assert first["headline"] == "10 shots"
    assert first["column"] == "right@10 shots"
    assert second["scores"]["10 shots"]["value"] > 0.75


def test_draws_that_differ_widen_the_interval(run) -> None:
    """One shot: most of the uncertainty is which image was drawn."""
    folder, record = run
    table = pq.read_table(folder / "out" / entries(record)[0]["table"])
    score = entries(record)[0]["scores"]["1 shot"]
    draws = np.stack([table[f"draw {draw}@1 shot"].to_numpy() for draw in range(1, 5)])
    assert draws.mean(1).std() > 0.01
    assert score["high"] - score["low"] > 2.2 * 1.96 * draws.mean(0).std() / 120**0.5


def test_pixels_shuffled_alike_are_as_good(tmp_path: Path) -> None:
    plain, alike, apart = entries(
        audit(
            tmp_path,
            FewShotAccuracy(Knn(1), shots=(5,), draws=2),
            FewShotAccuracy(Knn(1), consistent=True, threat=SHUFFLE, shots=(5,), draws=2),
            FewShotAccuracy(Knn(1), threat=SHUFFLE, shots=(5,), draws=2, first=60),
        )
    )
    assert alike["scores"]["5 shots"]["value"] == plain["scores"]["5 shots"]["value"]
    assert apart["scores"]["5 shots"]["value"] < plain["scores"]["5 shots"]["value"] - 0.2
    assert apart["scores"]["5 shots"]["n"] == 60


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    measure = audit(tmp_path, FewShotAccuracy(shots=(1, 60)))["encoders"][0]["measures"]["few_shot_accuracy"]
    assert measure["error"] is None
    (left_out,) = measure["left_out"].items()
    assert left_out[0] == "shots 60"
    assert "expected at least 60 training images of each class, got" in left_out[1]
    for wrong, kind, match in (
        ({"shots": ()}, BadValue, "shots"),
        ({"shots": (5, 5)}, BadValue, "once"),
        ({"shots": (0,)}, BadValue, "shot"),
        ({"draws": 1}, BadValue, "draws"),
        ({"probe": Logits()}, BadValue, "few_shot"),
        ({"consistent": True}, Missing, "consistent"),
    ):
        with pytest.raises(kind, match=match):
            FewShotAccuracy(**wrong)
