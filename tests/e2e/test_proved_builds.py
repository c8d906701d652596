"""What is proved of two builds: known answers, beside attacks, networks of which nothing can be proved, bad input."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from test_disagreements import PLAIN, SKEWED, breaking, build, network, white
from torch import Tensor, nn

import holdfast
from holdfast.core import Encoder, HoldfastError, Rng, Shard
from holdfast.core.pair import Pair
from holdfast.parts.observations.proved_alike import ProvedAlike
from holdfast.parts.threats.linf import Linf
from holdfast.report.index_sentences import _say_proofs
from holdfast.runtime.errors import Conflict, Failed
from holdfast.workflows.compare_index.attacked import Seen
from holdfast.workflows.compare_index.proved import Proofs, _compare, _measure
from levels import Levels, round_weights

IMAGES = 20


@pytest.fixture(scope="module")
def pictures() -> Tensor:
    return torch.rand(IMAGES, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def compare(old: Any, new: Any, images: Tensor, **options: Any) -> Any:
    first, second = (Encoder(side, mean=0, std=1, name=name) for side, name in ((old, "float"), (new, "int8")))
    return holdfast.compare_index(first, second, images, k=(1, 5), quiet=True, **options)


def test_of_linear_encoders_what_is_proved_is_the_truth() -> None:
    points = 0.3 + 0.4 * torch.rand(IMAGES, 1, 1, 2, generator=torch.Generator().manual_seed(0))
    old, new = white(PLAIN), white(SKEWED)
    clean = torch.cat([old(points), new(points)], 1)
    ids = tuple(map(str, range(IMAGES)))
    shard = Shard(Pair(old, new, (2, 2)), points, torch.arange(IMAGES), Rng(0, ids=ids), clean)
    radius = 0.02
    proved = ProvedAlike(ball=Linf(radius)).run(shard)
    for side, weights in (("first", PLAIN), ("second", SKEWED)):
        exact = breaking(points, weights)
        assert torch.allclose(proved[side], exact, atol=5e-5)
        assert bool((proved[side] <= exact + 1e-9).all())
    # Beside the least cosine in a fine grid of the ball
    steps = torch.linspace(-radius, radius, 41)
    grid = torch.stack(torch.meshgrid(steps, steps, indexing="ij"), -1).reshape(1, -1, 2)
    x = points.flatten(1)[:, None] + grid
    least = torch.cosine_similarity(x @ PLAIN.T, x @ SKEWED.T, dim=2).amin(1).double()
    assert bool((proved["cosine"] <= least + 1e-6).all())
    assert bool((proved["cosine"] >= least - 0.05).all())


@pytest.fixture(scope="module")
def record(pictures: Tensor) -> Any:
    return compare(
        network(1), round_weights(network(1)), pictures, attacked=6, proved=8, same=True,
        require=["cosine_proved > 0.9", "agreement_radius > 0.01/255"],
    )  # fmt: skip


def test_proofs_stand_beside_attacks(record: Any) -> None:
    measures = record["measures"]
    agreed, found = measures["agreement_radius"]["scores"], measures["disagreement_radius"]["scores"]
    assert 0 < agreed["both"]["value"] <= found["median"]["value"]
    assert agreed["both"]["value"] <= min(agreed["old"]["value"], agreed["new"]["value"])
    assert agreed["both"]["n"] == 8
    cosine = measures["cosine_proved"]["scores"]
    assert 0.9 < cosine["mean"]["value"] <= measures["cosine_attacked"]["scores"]["mean"]["value"] + 1e-6
    assert cosine["nothing proved"]["value"] == 0
    assert [finding["met"] for finding in record["findings"]] == [True, True]
    passes = record["proved"]["passes"]
    assert passes["predicted"]["forward"] == passes["made"]["forward"] == 0
    assert passes["made"]["bounds"] > 0


def test_the_answer_says_what_is_proved(record: Any) -> None:
    shown = " ".join(str(record).split())
    assert "It is proved that both agree up to a change of" in shown
    assert "for half of 8 images, and that within 1/255 their cosine stays above" in shown
    assert "propagations of bounds" in shown
    assert "change up to which both are proved to agree" in shown


def test_where_no_cosine_is_proved_for_half_none_is_named() -> None:
    ones = torch.ones(8, dtype=torch.float64)
    proved = Proofs(cosine=-ones, first=0.01 * ones, second=0.02 * ones)
    proved.cosine[:4] = 0.9
    sentence = _say_proofs(_measure(proved, "ℓ2 distance"), "image")
    assert sentence == (
        "It is proved that both agree up to a change of 2.55/255, for half of 8 images; of their cosine within 1/255 "
        "nothing is, for 50 % [16, 84] of them."
    )


def test_a_build_that_rounds_is_proved_too(pictures: Tensor) -> None:
    first, *rest = round_weights(network(1)).children()
    levels = nn.Sequential(Levels(1 / 255), first, Levels(0.02, 0), *rest).eval()
    found = compare(network(1), levels, pictures, attacked=3, proved=3)
    assert found["measures"]["agreement_radius"]["scores"]["both"]["value"] > 0
    assert found["measures"]["cosine_proved"]["scores"]["mean"]["value"] > 0.5


def test_interrupted_it_goes_on_and_asked_again_nothing_is_proved_twice(pictures: Tensor, tmp_path: Any) -> None:
    first = compare(network(1), round_weights(network(1)), pictures, proved=3, out=tmp_path / "run")
    again = compare(network(1), round_weights(network(1)), pictures, proved=3, out=tmp_path / "run")
    assert again["proved"]["passes"]["made"]["bounds"] == 0
    assert first["measures"] == again["measures"]


def test_where_nothing_can_be_proved_the_rest_is_told_and_why(pictures: Tensor) -> None:
    old = Encoder(network(1), mean=0, std=1, name="float")
    found = holdfast.compare_index(old, build(network(1)), pictures, proved=3, k=(1,), quiet=True)
    assert "overlap@1" in found["measures"]
    assert not {"agreement_radius", "cosine_proved"} & {*found["measures"]}
    (note,) = (note for note in found["notes"] if "proved" in note)
    assert "nothing is proved of both" in note
    assert "cannot be traced" in note
    assert "nothing is proved of both" in " ".join(str(found).split())


def test_networks_of_other_layers_have_radii_and_no_cosine(pictures: Tensor) -> None:
    found = compare(network(1), nn.Sequential(nn.Flatten(), nn.Linear(64, 12)).eval(), pictures, proved=3)
    assert found["measures"]["agreement_radius"]["scores"]["both"]["n"] == 3
    assert "cosine_proved" not in found["measures"]
    (note,) = (note for note in found["notes"] if "proved" in note)
    assert "no cosine is proved: not certified: expected two builds of one network" in note


def test_a_network_that_takes_too_long_is_refused_before_it_begins(pictures: Tensor) -> None:
    wide = [nn.Conv2d(1, 64, 3, padding=1), nn.ReLU(), *(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()) * 4]
    deep = nn.Sequential(*wide, nn.Flatten(), nn.Linear(4096 * 16, 4)).eval()
    large = torch.rand(8, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    found = compare(deep, round_weights(deep), large, proved=1)
    (note,) = (note for note in found["notes"] if "proved" in note)
    assert "would be bounded first, which takes" in note
    assert found["proved"]["passes"]["made"]["bounds"] == 0


def test_vectors_of_other_lengths_have_no_cosine_but_radii(pictures: Tensor) -> None:
    found = compare(network(1), nn.Sequential(network(1), nn.Linear(12, 5)).eval(), pictures, proved=3)
    assert "cosine_proved" not in found["measures"]
    assert found["measures"]["agreement_radius"]["scores"]["both"]["n"] == 3


def test_an_attack_that_contradicts_a_proof_ends_the_comparison() -> None:
    ones = torch.ones(2, dtype=torch.float64)
    proved = Proofs(cosine=0.9 * ones, first=0.1 * ones, second=0.2 * ones)
    seen = Seen(
        **dict.fromkeys(("halfway", "first", "second", "noise", "levels"), ones), radius=0.1 * ones, cosine=0.9 * ones
    )
    _compare(proved, seen, ("a", "b"))
    for wrong in (replace(seen, radius=0.09 * ones), replace(seen, cosine=0.8 * ones)):
        with pytest.raises(Failed) as error:
            _compare(proved, wrong, ("a", "b"))
        assert str(error.value).startswith("image 'a': an attack contradicts a proof")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"proved": 3, "divergence": "l1"}, "proved: expected a divergence whose margins are linear"),
        ({"proved": -1}, "proved: expected 0 or more"),
        ({"attacked": -1}, "attacked: expected 0 or more"),
    ],
)
def test_bad_requests_are_refused_before_a_pass(options: dict[str, Any], said: str, pictures: Tensor) -> None:
    with pytest.raises(HoldfastError) as error:
        compare(network(1), network(1), pictures, **options)
    assert said in str(error.value)


def test_stored_vectors_have_no_network(tmp_path: Any) -> None:
    with pytest.raises(Conflict) as error:
        holdfast.compare_index("vectors:old.npy", "vectors:new.npy", proved=3, out=tmp_path / "run")
    assert "proved: expected two encoders, whose networks can be read" in str(error.value)
