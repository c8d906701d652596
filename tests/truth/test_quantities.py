"""Any quantity under any threat: the same numbers as the measures that have a name of their own, and refusals."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import holdfast
from holdfast.auditing.plan import Plan
from holdfast.config.overrides import apply_changes
from holdfast.config.part_syntax import part_table
from holdfast.core import Encoder, Measure, Observation, Threat, registry
from holdfast.core.disturbance import Disturbance
from holdfast.core.naming import name_parts
from holdfast.core.quantity import Quantity
from holdfast.extend import register
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.disturbances.drawn import Drawn
from holdfast.parts.disturbances.searched import Searched
from holdfast.parts.disturbances.transferred import Transferred
from holdfast.parts.disturbances.universal_perturbation import UniversalPerturbation
from holdfast.parts.disturbances.worst_noise import WorstNoise
from holdfast.parts.learners.universal import Universal
from holdfast.parts.learners.worst_mixture import WorstMixture
from holdfast.parts.measures.corruptions.corrupted_accuracy import CorruptedAccuracy
from holdfast.parts.measures.corruptions.corruption_drift import CorruptionDrift
from holdfast.parts.measures.corruptions.neighbour_consistency import NeighbourConsistency
from holdfast.parts.measures.drift.cosine_to_self import CosineToSelf
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.measures.neighbours.nearest_neighbour_accuracy import NearestNeighbourAccuracy
from holdfast.parts.measures.probabilistic.universal_robustness import UniversalRobustness
from holdfast.parts.measures.retrieval.edited_retrieval import EditedRetrieval
from holdfast.parts.measures.transfer.transfer_quantile import TransferQuantile
from holdfast.parts.measures.what_under_what.under import Under
from holdfast.parts.observations.represented import Represented
from holdfast.parts.probes.knn import Knn
from holdfast.parts.quantities.drift import Drift
from holdfast.parts.quantities.label import Label
from holdfast.parts.quantities.nearer import Nearer
from holdfast.parts.quantities.nearest import Nearest
from holdfast.parts.quantities.neighbours_kept import NeighboursKept
from holdfast.parts.quantities.rank import Rank
from holdfast.parts.quantities.similarity import Similarity
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.gaussian import Gaussian
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import UnknownName
from holdfast.sources.data.arrays import Arrays
from json_records import run_audit

IMAGES, ATTACKED = 40, 24
ATTACK, BALL, EDIT = Pgd(4), Linf(0.1), Gamma(3.0)
ASCENT, SURROGATE = Universal(epochs=2), "zoo:digits-simclr"

TWINS: list[tuple[Quantity, Threat | Disturbance, Measure, str]] = [
    (Drift(), BALL, UniversalQuantile(ATTACK, BALL, readouts=(4,)), "4 steps"),
    (Nearer(), BALL, BreakawayRisk(ATTACK, BALL, readouts=(4,)), "4 steps"),
    (Nearest(), BALL, NearestNeighbourAccuracy(ATTACK, BALL, readouts=(4,), pursue="drift"), "4 steps"),
    (Similarity(), BALL, CosineToSelf(ATTACK, BALL, readouts=(4,)), "4 steps"),
    (Drift(), EDIT, CorruptionDrift((EDIT,)), EDIT.title),
    (NeighboursKept(5), EDIT, NeighbourConsistency((EDIT,), k=5), EDIT.title),
    (Rank(), EDIT, EditedRetrieval(threats=(EDIT,), k=(1,)), "average, mean reciprocal rank"),
    (Label(Knn(5)), EDIT, CorruptedAccuracy(Knn(5), threats=(EDIT,)), EDIT.title),
    (Nearest(), UniversalPerturbation(learner=ASCENT, ball=BALL), UniversalRobustness(learner=ASCENT, ball=BALL),
     "images that hold"),
    (Drift(), Transferred(surrogate=SURROGATE, ball=BALL, attack=ATTACK),
     TransferQuantile((SURROGATE,), ATTACK, BALL, asking=ATTACK), f"from {SURROGATE}"),
]  # fmt: skip
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
    plan = Plan(("it",), "arrays", measures, (), images=IMAGES, attacked=ATTACKED, batch_size=16, train="training")
    labels = torch.arange(IMAGES) % 3
    return run_audit(
        plan, folder, encoders={"it": network()}, source=Arrays(pictures, labels), training=Arrays(1 - pictures, labels)
    )["encoders"][0]


def test_a_cell_is_the_measure_of_its_name(pictures: Tensor, tmp_path: Path, subtests: pytest.Subtests) -> None:
    cells = [Under(what, threat, ATTACK) for what, threat, _, _ in TWINS]
    entry = audit(tmp_path, pictures, *cells, *(twin for *_, twin, _ in TWINS))
    measures = list(entry["measures"].values())
    for cell, twin, (what, threat, _, score) in zip(measures, measures[len(TWINS) :], TWINS, strict=False):
        with subtests.test(f"{what} under {threat.title}"):
            (own,) = cell["scores"].values()
            other = twin["scores"][score]
            numbers = ("value", "low", "high", "n")
            assert {key: own[key] for key in numbers} == {key: other[key] for key in numbers}
            assert own["interval"].partition(", given")[0] == other["interval"].partition(", given")[0]
            assert (cell["better"], cell["unit"]) == (twin["better"], twin["unit"])
    # and costs nothing beside it: one trajectory, one draw
    alone = audit(tmp_path / "alone", pictures, *(twin for *_, twin, _ in TWINS))
    assert entry["passes"]["measures"] == alone["passes"]["measures"]


def test_every_quantity_is_asked_under_a_threat_of_every_kind(pictures: Tensor, tmp_path: Path) -> None:
    noise = WorstNoise(learner=WorstMixture(epochs=1, components=1), ball=BALL)
    threats = (BALL, Gaussian(0.1), EDIT, registry.find("threats", "jpeg")(), noise, *(t for _, t, *_ in TWINS[-2:]))
    named = {type(t) for t in threats if isinstance(t, Disturbance)} | {Drawn, Searched}
    assert named == {registry.find("disturbances", name) for name in registry.names("disturbances")}
    cells = [
        Under(registry.find("quantities", name)(), t, ATTACK) for name in registry.names("quantities") for t in threats
    ]
    entry = audit(tmp_path, pictures, *cells)
    assert len(entry["measures"]) == len(cells)
    for measure in entry["measures"].values():
        (score,) = measure["scores"].values()
        assert score["value"] is not None
        assert measure["question"].endswith("?")
        # what is learned says of what its number is a bound
        learned = any(word in measure["title"] for word in ("worst noise", "one perturbation", SURROGATE))
        assert any(words in score["note"] for words in ("another may", "another surrogate")) == learned
    # what is searched relies on a search, what befalls an image on none
    assert "searches" not in json.dumps(entry["measures"]["drift under gamma"]["scores"])


def test_what_is_learned_is_judged_on_other_images(pictures: Tensor, tmp_path: Path) -> None:
    cells = [
        Under(Similarity(), WorstNoise(learner=WorstMixture(epochs=1, images=18), ball=BALL)),
        Under(Similarity(), UniversalPerturbation(learner=ASCENT, ball=BALL)),
        Under(Drift(), UniversalPerturbation(learner=ASCENT, ball=BALL), first=7),
    ]
    measures = audit(tmp_path, pictures, *cells)["measures"]
    assert [score["n"] for m in measures.values() for score in m["scores"].values()] == [22, 20, 7]


def test_a_disturbance_of_ones_own_stands_behind_every_quantity(
    pictures: Tensor, tmp_path: Path, own_parts_forgotten: None
) -> None:
    @register("disturbances")
    @dataclass(frozen=True)
    class Brighter(Disturbance):
        """Pixels become brighter."""

        @property
        def title(self) -> str:
            return "brighter"

        def observations(self) -> tuple[Observation, ...]:
            return (Represented(threat=Gamma(0.5), first=self.first),)

    changes = [f"{name} under brighter" for name in registry.names("quantities")]
    measures = apply_changes((), changes, BALL)
    entry = audit(tmp_path, pictures, *measures)
    assert list(entry["measures"]) == changes
    assert all(m["scores"]["brighter"]["value"] is not None for m in entry["measures"].values())


def test_it_is_written_as_it_is_said() -> None:
    (measure,) = apply_changes((), ["drift under universal_perturbation[learner.epochs=2]"], Linf(0.02))
    assert measure == Under(Drift(), UniversalPerturbation(learner=ASCENT, ball=Linf(0.02)))
    assert list(name_parts([measure])) == ["drift under universal_perturbation"]
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
        ("nearest under worst_nois", "unknown threat 'worst_nois'; did you mean 'worst_noise'?"),
    ],
)
def test_what_is_no_cell_is_refused(text: str, said: str) -> None:
    with pytest.raises(UnknownName) as error:
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
