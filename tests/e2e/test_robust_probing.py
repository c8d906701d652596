"""Robust linear probes in whole audits: every measure that has a probe takes them, and what they cost."""

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from holdfast.auditing.plan import Plan
from holdfast.core import Encoder, Measure, Threat
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.certifiers.interval import Interval
from holdfast.parts.failures.misclassified import Misclassified
from holdfast.parts.measures.certified.certified_accuracy import CertifiedAccuracy
from holdfast.parts.measures.certified.linear_radius import LinearRadius
from holdfast.parts.measures.classifiers.probe_accuracy import ProbeAccuracy
from holdfast.parts.measures.classifiers.robust_accuracy import RobustAccuracy
from holdfast.parts.measures.classifiers.robust_probe import RobustProbe
from holdfast.parts.measures.corruptions.corrupted_accuracy import CorruptedAccuracy
from holdfast.parts.measures.probabilistic.adversarial_robustness import AdversarialRobustness
from holdfast.parts.measures.smoothed.smoothed_probe_accuracy import SmoothedProbeAccuracy
from holdfast.parts.objectives.cross_entropy import CrossEntropy
from holdfast.parts.observations.mixtures import Mixtures
from holdfast.parts.probes.linear import Linear
from holdfast.parts.probes.robust_linear import RobustLinear
from holdfast.parts.smoothing.classifier import Classifier
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.gaussian import Gaussian
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.sources.data.arrays import Arrays
from json_records import run_audit

IMAGES, ATTACKED = 120, 40
PROBE = RobustLinear(L2(0.1), Pgd(4), epochs=4, tolerance=0)
COST = 1 + 4 * 5
"""Forward passes of PROBE for each image."""


def images() -> Arrays:
    """Three pixels tell the class faintly and surely, three others plainly, but noisily."""
    random = torch.Generator().manual_seed(5)
    labels = torch.arange(IMAGES) % 3
    x = 0.5 + 0.02 * torch.rand(IMAGES, 1, 8, 8, generator=random)
    x[torch.arange(IMAGES), 0, 7, labels] += 0.04
    x[:, :, 0] = 0.5 * torch.rand(IMAGES, 1, 8, generator=random)
    x[torch.arange(IMAGES), 0, 0, labels] += 0.4
    return Arrays(x, labels)


def network() -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(64, 60), nn.ReLU(), nn.Linear(60, 50))
    return Encoder(net, mean=0.5, std=0.5)


def audit(folder: Path, *measures: Measure, **plan) -> dict:
    asked = Plan(("it",), "arrays", measures, **{"attacked": ATTACKED, "batch_size": 16, **plan})
    return run_audit(asked, folder, encoders={"it": network()}, source=images(), overwrite=True)


def passes(record: dict, name: str) -> list[int]:
    assert record["failures"] == []
    observed = record["encoders"][0]["observations"]
    return [one["passes"]["forward"] for one in observed if one["part"]["name"] == name]


def probing(threats: tuple[Threat, ...] = (Gamma(0.5), Gamma(2.0)), **more) -> RobustProbe:
    return RobustProbe(**{"robust": PROBE, "threats": threats, "ball": L2(0.1), "attacks": (Pgd(8),), **more})


def test_every_measure_with_a_probe_shares_one_head(tmp_path: Path) -> None:
    record = audit(
        tmp_path,
        ProbeAccuracy(PROBE),
        CorruptedAccuracy(PROBE, threats=(Gamma(0.5), Gamma(2.0))),
        RobustAccuracy(PROBE, L2(0.1), (Pgd(8),), (CrossEntropy(),)),
        LinearRadius(Interval(), L2(0.1), PROBE, steps=5, tolerance=1e-2, first=4),
        CertifiedAccuracy(certifier=Interval(), ball=Linf(0.01), probe=PROBE, attack=Pgd(3), first=4),
        AdversarialRobustness(Misclassified(PROBE), attack=Pgd(3), first=4),
        probing(),
    )
    assert passes(record, "robust_head") == [(IMAGES - ATTACKED) * COST]
    measures = record["encoders"][0]["measures"]
    values = {name: {key: one["value"] for key, one in entry["scores"].items()} for name, entry in measures.items()}
    ours = values["robust_probe"]
    assert ours["clean, robust"] == values["probe_accuracy"]["top-1"] == values["robust_accuracy"]["no attack"]
    assert ours["corrupted, robust"] == values["corrupted_accuracy"]["average"]
    assert ours["attacked, robust"] == list(values["robust_accuracy"].values())[-1]
    assert ours["attacked, robust"] > 0.3


def test_training_images_are_disturbed_where_a_measure_wants_it(tmp_path: Path) -> None:
    """Each disturbance has a head of its own; draws of smoothing meet one that learned from their noise."""
    smoothed = SmoothedProbeAccuracy(certificate=Classifier(draws=100, probe=PROBE), sigma=0.1)
    record = audit(tmp_path, CorruptedAccuracy(PROBE, consistent=True, threats=(Gamma(0.5),)), smoothed)
    assert passes(record, "robust_head") == [(IMAGES - ATTACKED) * COST] * 3
    observed = [one["part"] for one in record["encoders"][0]["observations"] if one["part"]["name"] == "robust_head"]
    threats = [None if one["threat"] is None else one["threat"]["name"] for one in observed]
    assert sorted(map(str, threats)) == ["None", "gamma", "gaussian"]


def test_gains_are_paired_differences_of_the_same_images(tmp_path: Path) -> None:
    record = audit(tmp_path, probing())
    assert record["failures"] == []
    entry = record["encoders"][0]["measures"]["robust_probe"]
    scores = entry["scores"]
    value = {key: one["value"] for key, one in scores.items()}
    for what in ("clean", "corrupted", "attacked", "clean and corrupted"):
        gain = scores[f"{what}, gain"]
        assert gain["value"] == pytest.approx(value[f"{what}, robust"] - value[f"{what}, standard"], abs=1e-12)
        assert gain["low"] < gain["value"] < gain["high"]
        widths = [
            scores[f"{what}, {head}"]["high"] - scores[f"{what}, {head}"]["low"] for head in ("standard", "robust")
        ]
        assert gain["high"] - gain["low"] < 0.95 * math.hypot(*widths)  # which it would be if they were unpaired
    assert value["attacked, gain"] > 0.02
    assert value["turned by attacks, change"] < -0.05
    assert entry["headline"] == "clean and corrupted, gain"
    for head in ("standard", "robust"):
        both = (value[f"clean, {head}"] + value[f"corrupted, {head}"]) / 2
        assert value[f"clean and corrupted, {head}"] == pytest.approx(both, abs=1e-12)
        left = value[f"clean, {head}"] * (1 - value[f"turned by attacks, {head}"])
        assert value[f"attacked, {head}"] == pytest.approx(left, abs=1e-12)


def test_a_ball_without_size_gains_nothing(tmp_path: Path) -> None:
    record = audit(tmp_path, probing(robust=RobustLinear(L2(1e-7), Pgd(2), epochs=2)))
    scores = record["encoders"][0]["measures"]["robust_probe"]["scores"]
    for what in ("clean", "corrupted", "attacked", "clean and corrupted"):
        assert scores[f"{what}, gain"]["value"] == pytest.approx(0, abs=0.03)
        assert scores[f"{what}, gain"]["low"] < 0 < scores[f"{what}, gain"]["high"]


@pytest.mark.slow
def test_a_second_run_reads_the_head_and_batches_change_nothing(tmp_path: Path) -> None:
    first = audit(tmp_path / "a", probing())
    again = audit(tmp_path / "a", probing())
    assert again["run"]["resumed_shards"] == first["run"]["resumed_shards"] + sum(
        -(-shards // 16)
        for shards in (IMAGES, *[ATTACKED] * 4, 16)  # clean; two corruptions and two attacks; the head
    )
    other = audit(tmp_path / "b", probing(), batch_size=50)
    for record in (again, other):
        for key, score in record["encoders"][0]["measures"]["robust_probe"]["scores"].items():
            there = first["encoders"][0]["measures"]["robust_probe"]["scores"][key]["value"]
            assert score["value"] == pytest.approx(there, abs=0 if record is again else 0.03)


def test_mixtures_choose_the_radius_before_the_head_is_learned(tmp_path: Path) -> None:
    mixtures = Mixtures(epsilons=(0.0, 0.4), samples=64, separations=(2.0, 4.0), covariance="images")
    chosen = RobustLinear(L2(9.0), Pgd(4), epochs=2, chosen_by=mixtures, threshold=0.5)
    record = audit(tmp_path, ProbeAccuracy(chosen))
    assert record["failures"] == []
    order = [one["part"]["name"] for one in record["encoders"][0]["observations"]]
    assert order.index("image_covariance") < order.index("mixtures") < order.index("robust_head")


def test_what_cannot_be_learned_is_said_once_for_each_measure(tmp_path: Path) -> None:
    record = audit(tmp_path, probing(), attacked=IMAGES)
    assert "all images are attacked" in record["failures"][0]
    assert record["encoders"][0]["measures"]["robust_probe"]["error"]


@pytest.mark.parametrize("probe", [Linear(), PROBE])
def test_the_standard_probe_makes_no_pass_of_its_own(probe: Linear, tmp_path: Path) -> None:
    record = audit(tmp_path, ProbeAccuracy(probe, threat=Gaussian(0.1)))
    assert len(passes(record, "robust_head")) == (probe is PROBE)


def test_what_a_probe_needs_is_counted_and_called_by_its_name(tmp_path: Path) -> None:
    mixtures = Mixtures(epsilons=(0.0, 0.4), samples=64, separations=(2.0, 4.0), covariance="images")
    record = audit(tmp_path, probing(robust=RobustLinear(attack=Pgd(4), epochs=2, chosen_by=mixtures, threshold=0.5)))
    assert record["failures"] == []
    encoder = record["encoders"][0]
    titles = {one["part"]["name"]: one["title"] for one in encoder["observations"]}
    assert titles["robust_head"].startswith("robust probing")
    assert titles["mixtures"] == mixtures.title
    assert [name for name, said in titles.items() if said == "clean representations"] == ["clean"]
    head = next(one for one in encoder["observations"] if one["part"]["name"] == "robust_head")
    assert encoder["measures"]["robust_probe"]["passes_alone"]["forward"] > head["passes"]["forward"]
    assert encoder["passes"]["shared_fraction"] >= 0


def test_a_measure_says_why_its_probe_could_not_be_learned(tmp_path: Path) -> None:
    mixtures = Mixtures(samples=16, separations=(0.01,))
    record = audit(tmp_path, ProbeAccuracy(RobustLinear(chosen_by=mixtures)))
    assert "expected an ε with a SynBench score above 0" in record["encoders"][0]["measures"]["probe_accuracy"]["error"]


@pytest.mark.slow
def test_what_the_head_was_learned_at_is_said(tmp_path: Path) -> None:
    for number, (radius, same) in enumerate(((0.1, False), (0.0, True))):
        robust = RobustLinear(L2(0.1), Pgd(4), epochs=3, tolerance=0)
        if same:  # nothing but 0 to choose from
            robust = RobustLinear(L2(0.1), Pgd(4), epochs=3, chosen_by=Mixtures((0.0,), 64, (2.0,)), threshold=0.5)
        record = audit(tmp_path / str(number), probing(robust=robust))
        assert record["failures"] == []
        (measure,) = record["encoders"][0]["measures"].values()
        at, gain = measure["scores"]["ε of the robust head"], measure["scores"][measure["headline"]]
        assert at["value"] == radius
        assert ("the robust head is the standard one: ε is 0" in gain["note"]) == same
        assert (gain["value"] == 0) or not same


def test_more_than_memory_is_refused_before_any_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.parts.observations.robust_head.KEPT", 10_000)
    record = audit(tmp_path, probing())
    assert any("give 4 training images" in failure for failure in record["failures"])
    assert not [o for o in record["encoders"][0]["observations"] if o["part"]["name"] == "robust_head"]
