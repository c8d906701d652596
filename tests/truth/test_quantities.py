"""Any quantity under any threat: the same numbers as the measures that have a name of their own, and refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import holdfast
from holdfast.auditing.plan import Plan
from holdfast.config.overrides import apply_changes
from holdfast.config.part_syntax import part_table
from holdfast.core import Encoder, HoldfastError, Measure, Threat, registry
from holdfast.core.naming import name_parts
from holdfast.core.quantity import Quantity
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.measures.corruptions.corruption_drift import CorruptionDrift
from holdfast.parts.measures.corruptions.neighbour_consistency import NeighbourConsistency
from holdfast.parts.measures.drift.cosine_to_self import CosineToSelf
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.measures.neighbours.nearest_neighbour_accuracy import NearestNeighbourAccuracy
from holdfast.parts.measures.retrieval.edited_retrieval import EditedRetrieval
from holdfast.parts.measures.what_under_what.under import Under
from holdfast.parts.quantities.drift import Drift
from holdfast.parts.quantities.nearer import Nearer
from holdfast.parts.quantities.nearest import Nearest
from holdfast.parts.quantities.neighbours_kept import NeighboursKept
from holdfast.parts.quantities.rank import Rank
from holdfast.parts.quantities.similarity import Similarity
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.gaussian import Gaussian
from holdfast.parts.threats.linf import Linf
from holdfast.sources.data.arrays import Arrays
from json_records import run_audit

IMAGES, ATTACKED = 40, 24
ATTACK, BALL, EDIT = Pgd(4), Linf(0.1), Gamma(3.0)

TWINS: list[tuple[Quantity, Threat, Measure, str]] = [
    (Drift(), BALL, UniversalQuantile(ATTACK, BALL, readouts=(4,)), "4 steps"),
    (Nearer(), BALL, BreakawayRisk(ATTACK, BALL, readouts=(4,)), "4 steps"),
    (Nearest(), BALL, NearestNeighbourAccuracy(ATTACK, BALL, readouts=(4,), pursue="drift"), "4 steps"),
    (Similarity(), BALL, CosineToSelf(ATTACK, BALL, readouts=(4,)), "4 steps"),
    (Drift(), EDIT, CorruptionDrift((EDIT,)), EDIT.title),
    (NeighboursKept(5), EDIT, NeighbourConsistency((EDIT,), k=5), EDIT.title),
    (Rank(), EDIT, EditedRetrieval(threats=(EDIT,), k=(1,)), "average, mean reciprocal rank"),
]
"""A cell, and the measure that has it under a name of its own, with the score that says the same."""


@pytest.fixture(scope="module")
def pictures() -> Tensor:
    return torch.rand(IMAGES, 1, 8, 8, generator=torch.Generator().manual_seed(5))


def network() -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))
    return Encoder(net, mean=0.5, std=0.5, origin={"normalisation": "a test"})


def audit(folder: Path, pictures: Tensor, *measures: Measure) -> dict[str, Any]:
    plan = Plan(("it",), "arrays", measures, (), images=IMAGES, attacked=ATTACKED, batch_size=16)
    return run_audit(plan, folder, encoders={"it": network()}, source=Arrays(pictures))["encoders"][0]


def test_a_cell_is_the_measure_of_its_name(pictures: Tensor, tmp_path: Path, subtests: pytest.Subtests) -> None:
    cells = [Under(what, threat, ATTACK) for what, threat, _, _ in TWINS]
    entry = audit(tmp_path, pictures, *cells, *(twin for *_, twin, _ in TWINS))
    measures = list(entry["measures"].values())
    for cell, twin, (what, threat, _, score) in zip(measures, measures[len(TWINS) :], TWINS, strict=False):
        with subtests.test(f"{what} under {threat.title}"):
            (own,) = cell["scores"].values()
            numbers = ("value", "low", "high", "n", "interval", "note")
            assert {key: own[key] for key in numbers} == {key: twin["scores"][score][key] for key in numbers}
            assert (cell["better"], cell["unit"]) == (twin["better"], twin["unit"])
    # and costs nothing beside it: one trajectory, one draw
    alone = audit(tmp_path / "alone", pictures, *(twin for *_, twin, _ in TWINS))
    assert entry["passes"]["measures"] == alone["passes"]["measures"]


def test_every_quantity_is_asked_under_a_threat_of_every_kind(pictures: Tensor, tmp_path: Path) -> None:
    threats = (BALL, Gaussian(0.1), EDIT, registry.find("threats", "jpeg")())
    cells = [
        Under(registry.find("quantities", name)(), t, ATTACK) for name in registry.names("quantities") for t in threats
    ]
    entry = audit(tmp_path, pictures, *cells)
    assert len(entry["measures"]) == len(cells)
    for measure in entry["measures"].values():
        (score,) = measure["scores"].values()
        assert score["value"] is not None
        assert measure["question"].endswith("?")
    # what is searched relies on a search, what befalls an image on none
    assert "searches" not in json.dumps(entry["measures"]["drift under gamma"]["scores"])


def test_it_is_written_as_it_is_said() -> None:
    (measure,) = apply_changes((), ["nearest under gamma[gamma=3]"], Linf(0.02))
    assert measure == Under(Nearest(), Gamma(3.0))
    assert list(name_parts([measure])) == ["nearest under gamma"]
    several = apply_changes(
        (), ["rank[divergence=cosine] under gamma[gamma=3]", "rank under gamma[gamma=2]"], Linf(0.02)
    )
    assert list(name_parts(several)) == [
        "rank under gamma[divergence=cosine]", "rank under gamma[divergence=l2]"
    ]  # fmt: skip
    # without a radius in the audit's ball
    (measure,) = apply_changes((), ["drift under linf"], Linf(0.02))
    assert measure == Under(Drift(), Linf(0.02))
    assert part_table("breakaway_risk") == {"name": "breakaway_risk"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nearst under gamma", "unknown quantity 'nearst'; did you mean 'nearest'?"),
        ("nearest under gama", "unknown threat 'gama'; did you mean 'gamma'?"),
        ("nearest under", "unknown measure 'nearest under'"),
        ("nearest[k=3] under gamma", "nearest"),
    ],
)
def test_what_is_no_cell_is_refused(text: str, said: str) -> None:
    with pytest.raises(HoldfastError) as error:
        apply_changes((), [text], Linf(0.02))
    assert said in str(error.value)


def test_a_function_is_asked_under_every_threat(pictures: Tensor, own_parts_forgotten: None) -> None:
    @holdfast.quantity(better="higher", unit="ratio", question="How long is it still?")
    def length_kept(clean: Tensor, moved: Tensor) -> Tensor:
        return moved.norm(dim=1) / clean.norm(dim=1)

    assert float(length_kept(torch.ones(1, 2), torch.ones(1, 2))) == 1  # called as before
    record = holdfast.audit(
        network(), pictures, attacked=8,
        measures=["length_kept under gamma[gamma=1]", "length_kept under linf", "drift under gamma"],
    )  # fmt: skip
    kept = record["length_kept under gamma"]
    assert kept.value == pytest.approx(1, abs=1e-3)  # γ 1 leaves images as they are, but for rounding
    assert record["length_kept under linf"].value != pytest.approx(1, abs=1e-3)


def test_a_function_that_is_none_is_refused(pictures: Tensor, own_parts_forgotten: None) -> None:
    holdfast.quantity(lambda clean, moved: moved.sum(), name="summed")
    record = holdfast.audit(network(), pictures, measures=["summed under gamma", "drift under gamma"], attacked=8)
    assert "of one value per image" in str(record.data["encoders"][0]["measures"]["summed under gamma"]["error"])
