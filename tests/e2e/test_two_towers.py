"""A tiny image tower with its text tower, trained on digits: names, captions, words on pictures, hardening."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

import holdfast
from holdfast.core import UnknownName
from holdfast.runtime.errors import Mismatch
from holdfast.sources.encoders import open_encoder, open_texts
from registered import forget

FILE = Path(__file__).parents[2] / "examples/two_towers.py"
MANY = 40


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("two_towers", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["two_towers"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["two_towers"]
    forget()


@pytest.fixture(scope="module")
def texts(example, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return example.written(tmp_path_factory.mktemp("texts"))


def audited(folder: Path, encoders, measures: list[str], **options) -> holdfast.Record:
    profile = folder / "small.toml"
    profile.write_text(
        'description = "small"\nimages = 150\nattacked = 40\nmeasures = ["uniformity"]\nexamined = 2\nqueries = 10\n'
    )
    options = {"attacked": MANY, "profile": str(profile), "quiet": True} | options
    return holdfast.audit(encoders, "digits", measures=measures, **options)


@pytest.mark.slow
def test_names_are_a_classifier_attacked_proved_and_written_on(example, texts, tmp_path: Path) -> None:
    names, points = texts
    record = audited(tmp_path, "towers:digits", example.measures(names, points, 0.1))
    assert not record.failures
    held, proved = record.scores("robust_accuracy"), record.scores("certified_accuracy")
    under = record.scores("corrupted_accuracy")
    assert under["no corruption"].value > 0.9
    assert held["after all"].value < under["no corruption"].value - 0.3
    assert 0.5 < proved["certificate"].value <= proved["attack"].value
    assert under["wrong names 25 %"].value < 0.7
    search = record.scores("caption_retrieval")
    for way in ("image to text", "text to image"):
        clean, worst = (search[f"{way} recall@5, {query}"].value for query in ("clean", "worst found"))
        assert clean > 0.5  # one of 1,200 captions; one of 150 images
        assert worst < clean - 0.1
    assert search["text to image recall@5, clean"].n == MANY


@pytest.mark.parametrize("objective", [pytest.param("fare", marks=pytest.mark.slow), "tecoa"])
@pytest.mark.slow
def test_both_ways_of_hardening_help(example, texts, objective: str, tmp_path: Path) -> None:
    names, points = texts
    (tmp_path / "small.toml").write_text(example.SMALL)
    asked = objective if objective == "fare" else f"tecoa[path={names}]"
    hardened = holdfast.harden(
        "towers:digits", "digits?part=train", objective=asked, steps=120, eps=0.1, views="none", test="digits",
        profile=str(tmp_path / "small.toml"), out=tmp_path / "run", quiet=True, head=names,
    )  # fmt: skip
    assert hardened.record.objective == objective
    (accuracy,) = (row for row in hardened.record.measures if row.measure.startswith("robust_accuracy"))
    assert accuracy.after.value > accuracy.before.value + 0.1  # of the names, which are a linear head
    spec = hardened.record.encoder
    record = audited(
        tmp_path,
        {"before": "towers:digits", "after": spec},
        [
            f"robust_accuracy[probe=zero_shot[path={names}],ball.radius=0.1]",
            f"caption_retrieval[path={points},ball.radius=0.02,k=[1,5],attack.steps=20]",
        ],
    )
    before, after = (record.scores("robust_accuracy", encoder=name)["after all"].value for name in ("before", "after"))
    assert after > before + 0.1
    held = [
        {name: score.value for name, score in record.scores("caption_retrieval", encoder=which).items()}
        for which in ("before", "after")
    ]
    if objective == "fare":  # what keeps representations keeps captions
        name = "text to image mean reciprocal rank"  # of 80 captions a recall moves in steps
        lost = [h[f"{name}, clean"] - h[f"{name}, worst found"] for h in held]
        assert lost[1] < lost[0]


def test_a_folder_of_files_is_all_that_is_needed(example, texts, tmp_path: Path) -> None:
    """The texts need no text tower any more; another encoder's do not fit."""
    _, points = texts
    record = audited(tmp_path, "zoo:digits-simclr", [f"caption_retrieval[path={points}]"], attacked=4)
    assert "the captions have 32 dimensions, the representations 64; take the text tower" in record.failures[0]
    with pytest.raises(Mismatch, match="40 of 40"):
        holdfast.audit(
            "towers:digits", torch.rand(40, 1, 8, 8), measures=f"caption_retrieval[path={points}]", quiet=True
        )
    with pytest.raises(UnknownName, match="towers"):
        open_texts("towers:digits")(["a horse"])
    assert open_encoder("towers:digits")(torch.rand(2, 1, 8, 8)).shape == (2, example.DIM)
