"""Measures of probabilistic robustness and the check of their order, inside audits whose answer is known."""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor, nn

from holdfast.auditing.plan import Plan, validity_panel
from holdfast.auditing.profile import profile
from holdfast.auditing.profile_files import profile_names
from holdfast.core import Check, Encoder, Measure, registry
from holdfast.numerics import statistics
from holdfast.parts.attacks.bim import Bim
from holdfast.parts.attacks.minimum_norm import MinimumNorm
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.checks.noise_order import NoiseOrder, ball_of, must_not_exceed
from holdfast.parts.estimators.counting import Counting
from holdfast.parts.estimators.precise import Precise
from holdfast.parts.estimators.sequential import Sequential
from holdfast.parts.estimators.splitting import Splitting
from holdfast.parts.failures.misclassified import Misclassified
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.learners.worst_mixture import CHOICES, WorstMixture
from holdfast.parts.measures.probabilistic.adversarial_robustness import AdversarialRobustness
from holdfast.parts.measures.probabilistic.failure_probability import FailureProbability
from holdfast.parts.measures.probabilistic.probabilistic_accuracy import ProbabilisticAccuracy
from holdfast.parts.measures.probabilistic.probabilistic_robustness import ProbabilisticRobustness
from holdfast.parts.measures.probabilistic.worst_noise_robustness import WorstNoiseRobustness
from holdfast.parts.probes.logits import Logits
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.mixture import Mixture
from holdfast.parts.threats.uniform import Uniform
from holdfast.runtime.errors import BadValue, Missing
from holdfast.sources.data.arrays import Arrays
from json_records import run_audit

IMAGES, ATTACKED = 80, 40
EPSILON = 0.1
CLASSES = Misclassified(Logits())
LEARNER = WorstMixture(
    "label", groups="labels", latent=4, upsampler="none", covariance="diagonal", hidden=8, embedding=4, epochs=60,
    rate=0.03, batch=40, images=None,
)  # fmt: skip


class Threshold(nn.Module):
    """A classifier of two classes: is the first pixel above one half?"""

    def forward(self, x: Tensor) -> Tensor:
        away = 20 * (x[:, 0, 0, :1] - 0.5)
        return torch.cat([-away, away], 1)


def pictures() -> tuple[Tensor, Tensor]:
    """First pixels 0.02, 0.06 and 0.2 away from one half, on both sides, a third each; one image mislabelled."""
    generator = torch.Generator().manual_seed(0)
    x = 0.3 + 0.4 * torch.rand(IMAGES, 1, 2, 2, generator=generator)
    labels = torch.arange(IMAGES) % 2
    distance = torch.tensor([0.02, 0.06, 0.2])[torch.arange(IMAGES) // 2 % 3]
    x[:, 0, 0, 0] = 0.5 + (2 * labels - 1) * distance
    labels[-1] = 1 - labels[-1]
    return x, labels


def audit(folder: Path, *measures: Measure, checks: tuple[Check, ...] = (), labelled: bool = True, **plan) -> dict:
    x, labels = pictures()
    asked = {"images": IMAGES, "attacked": ATTACKED} | plan
    source = Arrays(x, labels if labelled else None)
    encoder = Encoder(Threshold(), mean=0, std=1, origin={"normalisation": "a test"})
    return run_audit(
        Plan(("it",), "arrays", measures, checks, **asked), folder, encoders={"it": encoder}, source=source
    )


def column(folder: Path, record: dict, name: str, column: str) -> Tensor:
    entry = record["encoders"][0]["measures"][name]
    assert entry["error"] is None, entry["error"]
    return torch.from_numpy(pq.read_table(folder / entry["table"])[column].to_numpy().copy())


def away(folder: Path, record: dict, name: str) -> Tensor:
    """How far the first pixel of each image of a table is from one half."""
    x, _ = pictures()
    ids = pq.read_table(folder / record["encoders"][0]["measures"][name]["table"])["id"].to_pylist()
    return (x[[int(image) for image in ids], 0, 0, 0] - 0.5).abs()


BALL = Linf(EPSILON)
MEASURES = (
    AdversarialRobustness(CLASSES, attack=Pgd(20), ball=BALL),
    WorstNoiseRobustness(CLASSES, learner=LEARNER, ball=BALL),
    ProbabilisticRobustness(CLASSES, noise=Uniform(BALL), estimator=Counting(400)),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("chances")
    return folder, audit(folder, *MEASURES, checks=(NoiseOrder(CLASSES, BALL, MEASURES),))


def test_attack_breaks_what_the_ball_reaches(run) -> None:
    held, distance = column(*run, "adversarial_robustness", "held"), away(*run, "adversarial_robustness")
    right = ~held.isnan()
    assert torch.equal(held[right] == 1, distance[right] > EPSILON)


def test_smallest_changes_tell_of_every_ball(tmp_path) -> None:
    smallest = [replace(MEASURES[0], attack=MinimumNorm(30), ball=Linf(radius)) for radius in (0.04, 0.1, 0.3)]
    record = audit(tmp_path, *smallest, MEASURES[0])
    names = list(record["encoders"][0]["measures"])
    for measure, name in zip(smallest, names, strict=False):
        held, distance = column(tmp_path, record, name, "held"), away(tmp_path, record, name)
        right = ~held.isnan()
        assert torch.equal(right, ~column(tmp_path, record, names[-1], "held").isnan())
        assert torch.equal(held[right] == 1, distance[right] > measure.ball.radius)
    searches = [o["part"]["name"] for o in record["encoders"][0]["observations"]]
    assert searches.count("breaking_radii") == 1


def test_uniform_noise_fails_as_often_as_it_must(run) -> None:
    """P[noise on one pixel exceeds t] = (1 - t/ε)/2."""
    held, distance = column(*run, "probabilistic_robustness", "held"), away(*run, "probabilistic_robustness")
    low, high = (column(*run, "probabilistic_robustness", end) for end in ("low", "high"))
    truth = 1 - (1 - distance.double() / EPSILON).clamp_min(0) / 2
    right = ~held.isnan()
    assert float(((low <= truth) & (truth <= high))[right].double().mean()) >= 0.9
    assert float((held - truth)[right].abs().max()) < 0.1


def test_the_worst_noise_by_label_is_found(run) -> None:
    """Knowing the side, the noise pushes to the other one: what is within ε of it fails almost surely."""
    _, record = run
    held, distance = column(*run, "worst_noise_robustness", "held"), away(*run, "worst_noise_robustness")
    right = ~held.isnan()
    assert float(held[right & (distance < EPSILON)].mean()) < 0.1
    assert (held[right & (distance > EPSILON)] == 1).all()
    score = record["encoders"][0]["measures"]["worst_noise_robustness"]["scores"]["draws that hold"]
    assert "upper bound" in score["note"]
    assert "given the learned noise" in score["interval"]


def test_the_order_holds_and_is_reported(run) -> None:
    _, record = run
    scores = [m["scores"][m["headline"]]["value"] for m in record["encoders"][0]["measures"].values()]
    assert scores == sorted(scores)
    verdict = record["encoders"][0]["checks"]["noise_order"]
    assert verdict["status"] == "pass"
    assert "attack (pgd)" in verdict["finding"]
    assert "worst noise (label)" in verdict["finding"]


def test_a_noise_that_depends_on_labels_asks_for_them(run, tmp_path) -> None:
    folder, record = run
    (noise,) = record["encoders"][0]["noises"]
    mixture = Mixture(str(folder / noise["file"]))
    assert mixture.ball == BALL
    again = ProbabilisticRobustness(CLASSES, noise=mixture)
    here = audit(tmp_path / "a", again)
    first = record["encoders"][0]["measures"]["worst_noise_robustness"]["scores"]["draws that hold"]["value"]
    assert here["encoders"][0]["measures"]["probabilistic_robustness"]["scores"]["draws that hold"]["value"] == first
    label_free = replace(again, failure=Nearest())
    assert label_free.needs_labels
    assert label_free.draws.needs_labels
    assert not ProbabilisticRobustness(noise=Uniform()).needs_labels
    with pytest.raises(Missing, match="probabilistic_robustness"):
        audit(tmp_path / "b", label_free, labelled=False)


def test_what_a_given_mixture_knows_decides_what_it_is_compared_with(run) -> None:
    folder, record = run
    given = ProbabilisticRobustness(CLASSES, noise=Mixture(str(folder / record["encoders"][0]["noises"][0]["file"])))
    structures = {s: replace(MEASURES[1], learner=replace(LEARNER, structure=s)) for s in CHOICES["structure"]}
    assert {s for s, measure in structures.items() if must_not_exceed(measure, given)} == {"label", "joint"}


def test_images_that_are_wrong_without_noise_are_left_out_or_counted(tmp_path) -> None:
    everyone = replace(MEASURES[0], among="all")
    record = audit(tmp_path, MEASURES[0], everyone, attacked=IMAGES)
    left, counted = (m["scores"]["images that hold"] for m in record["encoders"][0]["measures"].values())
    assert left["n"] == IMAGES - 1
    assert counted["n"] == IMAGES
    assert counted["value"] == pytest.approx(left["value"] * (IMAGES - 1) / IMAGES)
    for score, word in ((left, "left out"), (counted, "counted")):
        assert f"1 of {IMAGES} images fail without a disturbance, {word}" in score["note"]
    with pytest.raises(BadValue, match="adversarial_robustness"):
        AdversarialRobustness(among="some")


def test_a_weak_attack_and_an_untrained_noise_are_noticed(tmp_path) -> None:
    weak = AdversarialRobustness(CLASSES, attack=Bim(1, 1e-6), ball=BALL)
    untrained = WorstNoiseRobustness(
        CLASSES, learner=replace(LEARNER, epochs=1, rate=1e-9, structure="independent"), ball=BALL
    )
    measures = (weak, untrained, MEASURES[2])
    checks = (NoiseOrder(CLASSES, BALL, measures),)
    own, shared = (
        audit(tmp_path / str(flag), *measures, checks=checks, shared_searches=flag)["encoders"][0]
        for flag in (False, True)
    )
    for record in (own, shared):
        verdict = record["checks"]["noise_order"]
        assert verdict["status"] == "warn"
        assert "that the attack did not break" in verdict["finding"]
        assert verdict["details"]["missed"] > 20
    assert "attack (bim) above uniform" in own["checks"]["noise_order"]["finding"]
    assert "attack (bim) above" not in shared["checks"]["noise_order"]["finding"]  # what a draw breaks is broken
    alone, all_found = (r["measures"]["adversarial_robustness"]["scores"]["images that hold"] for r in (own, shared))
    assert all_found["value"] < alone["value"] - 0.1


def test_order_of_structures() -> None:
    noises = {
        s: replace(MEASURES[1], learner=replace(LEARNER, structure=s))
        for s in ("independent", "label", "input", "joint")
    }
    expected = {
        ("label", "independent"),
        ("input", "independent"),
        ("joint", "independent"),
        ("joint", "label"),
        ("joint", "input"),
    }
    found = {(a, b) for a in noises for b in noises if must_not_exceed(noises[a], noises[b])}
    assert found == expected
    assert must_not_exceed(MEASURES[0], MEASURES[2])
    assert not must_not_exceed(MEASURES[2], MEASURES[0])
    with pytest.raises(BadValue, match="failure"):
        NoiseOrder(Nearest(), BALL, MEASURES)
    with pytest.raises(BadValue, match="images"):
        NoiseOrder(CLASSES, BALL, (MEASURES[0], replace(MEASURES[2], among="all")))


def test_probabilistic_accuracy_knows_which_images_fail_rarely(tmp_path) -> None:
    measure = ProbabilisticAccuracy(CLASSES, noise=Uniform(BALL), estimator=Sequential(4000, gamma=0.3, alpha=0.05))
    record = audit(tmp_path, measure)
    held, frequent = (column(tmp_path, record, "probabilistic_accuracy", name) for name in ("held", "frequent"))
    distance, wrong = (
        away(tmp_path, record, "probabilistic_accuracy"),
        column(tmp_path, record, "probabilistic_accuracy", "wrong"),
    )
    chance = (1 - distance / EPSILON).clamp_min(0) / 2  # 0.4, 0.2, 0
    right = wrong == 0
    assert torch.equal(held[right] == 1, chance[right] < 0.3)
    assert torch.equal(frequent[right] == 1, chance[right] > 0.3)
    drawn = column(tmp_path, record, "probabilistic_accuracy", "drawn")
    assert int(drawn[right & (chance == 0)].max()) < 65
    assert (
        "draws an image on average"
        in record["encoders"][0]["measures"]["probabilistic_accuracy"]["scores"]["proved to fail rarely"]["note"]
    )


def test_failure_probability_reaches_what_counting_cannot(tmp_path) -> None:
    """Uniform noise on one pixel never reaches 0.2; at 0.06 and 0.02 it does with probability 0.2 and 0.4."""
    measure = FailureProbability(CLASSES, noise=Uniform(BALL), estimator=Splitting(particles=60, runs=4, least=1e-6))
    record = audit(tmp_path, measure, attacked=20)
    probability, distance = (
        column(tmp_path, record, "failure_probability", "probability"),
        away(tmp_path, record, "failure_probability"),
    )
    truth = (1 - distance / EPSILON).clamp_min(0).double() / 2
    right = ~probability.isnan()
    assert (probability[right & (truth == 0)] == 0).all()
    assert float((probability - truth)[right].abs().max()) < 0.12
    median = record["encoders"][0]["measures"]["failure_probability"]["scores"]["median"]
    assert median["low"] < median["value"] < median["high"]


def test_precise_draws_serve_the_same_measure(tmp_path) -> None:
    record = audit(tmp_path, replace(MEASURES[2], estimator=Precise(4000, precision=0.08)))
    low, high, drawn = (column(tmp_path, record, "probabilistic_robustness", name) for name in ("low", "high", "drawn"))
    assert (high - low <= 0.16).all()
    assert len(drawn.unique()) > 1


@pytest.mark.slow
def test_stopping_does_not_bias_the_mean_over_images() -> None:
    rule = Precise(2000, precision=0.05)
    outcome = (torch.rand(1500, 2000, generator=torch.Generator().manual_seed(2)) < 0.03).to(torch.int8)
    failed, drawn = rule.count_until_stop(outcome)
    biased = float((failed / drawn).mean())
    plain = statistics.share_of_draws(1 - outcome[:, : rule.common].double().mean(1), rule.common)
    assert biased < 0.027  # images that show no failure early stop early
    assert plain.low is not None
    assert plain.high is not None
    assert plain.low <= 0.97 <= plain.high


@pytest.mark.parametrize("measure", [ProbabilisticRobustness, ProbabilisticAccuracy, FailureProbability])
def test_estimators_are_checked(measure: type) -> None:
    others = {ProbabilisticRobustness: "sequential", ProbabilisticAccuracy: "counting", FailureProbability: "counting"}
    name = registry.part_name(measure)
    with pytest.raises(BadValue, match="estimator"):
        registry.build({"kind": "measures", "name": name, "estimator": {"name": others[measure]}})


def test_labels_are_asked_for(tmp_path) -> None:
    with pytest.raises(Missing, match="probabilistic_robustness"):
        audit(tmp_path / "a", MEASURES[2], labelled=False)
    with pytest.raises(Missing, match="worst_noise_robustness"):
        audit(tmp_path / "b", WorstNoiseRobustness(Nearest(), learner=LEARNER), labelled=False)


@pytest.mark.slow
def test_where_all_images_are_attacked_half_of_them_are_learned_from(tmp_path) -> None:
    record = audit(tmp_path, *MEASURES, checks=(NoiseOrder(CLASSES, BALL, MEASURES),), attacked=IMAGES)
    assert record["failures"] == []
    held = [column(tmp_path, record, name, "held") for name in record["encoders"][0]["measures"]]
    assert [len(values) for values in held] == [IMAGES, IMAGES // 2, IMAGES]
    assert record["encoders"][0]["checks"]["noise_order"]["status"] == "pass"


def test_one_failure_is_told_once(tmp_path) -> None:
    alone = WorstNoiseRobustness(Nearest(), learner=replace(LEARNER, groups="clusters"), ball=BALL)
    record = audit(tmp_path, alone, images=10, attacked=4)
    entry = record["encoders"][0]["measures"]["worst_noise_robustness"]
    assert len(record["failures"]) == 1
    assert "clusters" in entry["error"]
    assert entry["error"] in record["failures"][0]


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_checks_the_order_it_measures(name: str) -> None:
    measures = profile(name, Linf(0.03)).measures
    orders = [check for check in validity_panel(measures, 8, 100) if isinstance(check, NoiseOrder)]
    chances = [
        m for m in measures if isinstance(m, (AdversarialRobustness, ProbabilisticRobustness, WorstNoiseRobustness))
    ]
    assert len(orders) == (1 if len({(m.failure, ball_of(m)) for m in chances}) == 1 else 0)
    if orders:
        assert set(orders[0].measures) == set(chances)
