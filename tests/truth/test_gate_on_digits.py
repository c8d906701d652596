"""The gate on real encoders: how seldom it is wrong, and whether it catches what was planned."""

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.regression import ENCODER, Audited, audited, exchanging, noisy, power, resampled, shares

from holdfast.sources.encoders import open_encoder

RUNS = 50
Both = tuple[Audited, Audited]


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> Both:
    """One with noise in its weights, and the one without."""
    folder: Path = tmp_path_factory.mktemp("digits")
    return audited(noisy(0.3), 60, str(folder / "noisy")), audited(open_encoder(ENCODER), 60, str(folder / "clean"))


@pytest.mark.slow
def test_an_equal_encoder_is_seldom_called_worse(encoders: Both) -> None:
    """Half of 5 % is promised; of 50 checks that is 4 or fewer with probability 0.99."""
    name = "breaking_radius"
    both = [replace(encoder, measures={name: encoder.measures[name]}) for encoder in encoders]
    assert shares(exchanging(*both, 50), (), RUNS)["worse"] <= 4 / 50
    lost = shares(exchanging(*both, 50, lower=True), ("5%",), RUNS)
    assert max(lost["worse"], lost["no worse"]) <= 4 / 50


@pytest.mark.slow
def test_noise_is_caught_as_often_as_planned(encoders: Both) -> None:
    found = power(*encoders, RUNS, sizes=(20, 150))
    assert found.loss > 0.1
    assert found.caught[20] < found.caught[150]
    assert found.caught[150] > 0.9
    assert found.achieved == pytest.approx(0.8, abs=0.17)


@pytest.mark.slow
def test_other_images_and_attacks_are_no_loss() -> None:
    for same_images in (True, False):
        assert shares(resampled(same_images, 100), (), 200)["worse"] <= 0.05
