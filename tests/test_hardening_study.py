"""The study of ways to harden: equal passes, one audit that compares all ways, and what is there is not made again."""

import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks are no part of the package

from benchmarks import hardening
from benchmarks.hardening import Network, Way, passes_of_a_step, study

from holdfast.sources.encoders import open_encoder
from holdfast.training.images import TrainingImages

ENCODER = "zoo:digits-simclr"


def test_a_step_is_counted_at_the_network() -> None:
    """PGD of three steps and the attacked and the clean view: 5 forward and backward, f_0 once; FARE 11 and once."""
    start = open_encoder(ENCODER)
    images = TrainingImages("digits?part=train", images=128, geometry=start.geometry)
    network = Network("digits", ENCODER, {}, "", "", eps=0.1, steps=1)
    assert passes_of_a_step(Way("harden"), network, start, images) == 11
    assert passes_of_a_step(Way("FARE", fare=1e-3), network, start, images) == 23


@pytest.mark.slow
def test_ways_are_compared_on_images_that_none_has_learned_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = open_encoder(ENCODER)
    dim = start(torch.zeros(1, 1, 8, 8)).shape[1]
    save_file(
        {"weight": torch.randn(10, dim, generator=torch.Generator().manual_seed(0))}, tmp_path / "head.safetensors"
    )
    head = {"path": "{}/head.safetensors"}
    network = Network(
        "digits", ENCODER, head, "digits?part=train", "digits?part=heldout", eps=0.1, steps=23, attacked=8
    )
    ways = [Way("harden", {"rate": 0.01}), Way("FARE", fare=1e-3), Way("twice", {"rate": 0.01}, share=2.0)]
    once = study(network, ways, tmp_path / "run", str(tmp_path))
    assert [row["way"] for row in once["rows"]] == ["before", "harden", "FARE", "twice"]
    before, harden, fare, twice = once["rows"]
    assert (harden["steps"], fare["steps"], twice["steps"]) == (23, 11, 46)  # equal passes: 23 · 11 = 11 · 23
    assert before["cosine"]["value"] == pytest.approx(1)
    assert all(row["cosine"]["value"] < 1 for row in (harden, fare, twice))
    assert twice["universal_quantile"]["value"] < before["universal_quantile"]["value"]
    # what is there is read
    monkeypatch.setattr(hardening, "train", None)
    monkeypatch.setattr(hardening, "fare", None)
    assert study(network, ways, tmp_path / "run", str(tmp_path))["rows"] == once["rows"]
