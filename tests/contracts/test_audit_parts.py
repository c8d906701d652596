"""Every measure and every check, inside a small audit: tables, scores, verdicts, passes."""

import atexit
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import typechecker
from holdfast.auditing.plan import Plan
from holdfast.comparison.records import open_run
from holdfast.core import Check, Encoder, Grid, Measure, Relevance, registry
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.attacks.minimum_norm import MinimumNorm
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.checks.shared.search import gain_of, in_words, times_as_far
from holdfast.parts.estimators.counting import Counting
from holdfast.parts.estimators.sequential import Sequential
from holdfast.parts.estimators.splitting import Splitting
from holdfast.parts.learners.universal import Universal
from holdfast.parts.learners.worst_mixture import WorstMixture
from holdfast.parts.measures.shared.attack_measure import AttackMeasure
from holdfast.parts.objectives.class_margin import ClassMargin
from holdfast.parts.objectives.cross_entropy import CrossEntropy
from holdfast.parts.objectives.dlr import Dlr
from holdfast.parts.observations.fine_tuned import FineTuned
from holdfast.parts.observations.mixtures import Mixtures
from holdfast.parts.probes.linear import Linear
from holdfast.parts.probes.robust_linear import RobustLinear
from holdfast.parts.smoothing.center import Center
from holdfast.parts.smoothing.classifier import Classifier
from holdfast.parts.smoothing.pair_probability import PairProbability
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import NothingAudited
from holdfast.sources.data import ImageSet
from holdfast.sources.data.arrays import Arrays
from json_records import run_audit

IMAGES, ATTACKED = 30, 14
RTOL = 1e-3
SMALL_MIXTURES = Mixtures(samples=64, separations=(1.0, 2.0, 3.0))
LABELS = torch.arange(IMAGES) % 3
ATTACK = {"attack": Pgd(4), "readouts": (2, 4)}

TRANSFER = {"surrogates": ("zoo:digits-simclr",), "attack": Pgd(4), "asking": Square(4)}


def captions(ids: Sequence[str]) -> str:
    """Return a file of a caption of each image, of the width of the encoder."""
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    points = torch.randn(len(ids), 12, generator=torch.Generator().manual_seed(6))
    save_file({"embeddings": points}, f"{folder.name}/captions.safetensors", {"ids": json.dumps(list(ids))})
    return f"{folder.name}/captions.safetensors"


SMALL = {
    "smoothed_radius": {"certificate": PairProbability(draws=600)},
    "smoothed_accuracy": {"certificate": Classifier(draws=300), "sigma": 0.1},
    "smoothed_probe_accuracy": {"certificate": Classifier(draws=300, probe=Linear()), "sigma": 0.02},
    "center_smoothing": {"certificate": Center(0.02, draws=800, distances=500, slack=0.1), "sigma": 0.1},
    "certified_radius": {"negatives": 3, "steps": 10, "tolerance": 1e-3},
    "linear_radius": {"steps": 10, "tolerance": 1e-3},
    "radius_bound": {"classes": 2, "negatives": 3, "steps": 5, "tolerance": 1e-3},
    "radius_likeness": {"negatives": 3, "tail": 8, "steps": 5, "tolerance": 1e-3},
    "margin_calibration": {"tail": 6, "orders": (2, 1)},
    "certified_accuracy": {"attack": Apgd(4), "ball": Linf(0.02)},
    "robust_accuracy": {
        "attacks": (Apgd(4), MinimumNorm(4), Square(4)),
        "objectives": (CrossEntropy(), ClassMargin(), Dlr()),
        "ball": Linf(0.02),
    },
    "impersonation_rate": {"attack": Pgd(4), "readouts": (2, 4), "ball": Linf(0.3)},
    "instance_accuracy": {"negatives": 3, "attack": Apgd(4), "ball": Linf(0.02)},
    "tightness": {"negatives": 3, "attack": Apgd(4), "ball": Linf(0.02)},
    "certified_breakaway_risk": {"attack": Apgd(4), "ball": Linf(0.02)},
    "certified_nearest_neighbour_accuracy": {"attack": Apgd(4), "ball": Linf(0.02)},
    "adversarial_hubness": {"attack": Apgd(4), "hubs": 3},
    "certified_hubness": {"attack": Apgd(4), "ball": Linf(0.02), "first": 3},
    "certified_overlap_risk": {"attack": Apgd(4), "ball": Linf(0.02)},
    "certified_drift": {"attack": Apgd(4), "ball": Linf(0.02)},
    "adversarial_robustness": {"attack": Apgd(4)},
    "probabilistic_robustness": {"estimator": Counting(20)},
    "probabilistic_accuracy": {"estimator": Sequential(100, gamma=0.2)},
    "failure_probability": {"estimator": Splitting(20, runs=2, least=1e-4)},
    "worst_noise_robustness": {
        "learner": WorstMixture(latent=4, hidden=8, embedding=4, clusters=2, epochs=2, samples=4),
        "estimator": Counting(20),
    },
    "universal_robustness": {"learner": Universal(epochs=2, batch=8)},
    "few_shot_accuracy": {"shots": (1, 2), "draws": 3},
    "synbench": {"mixtures": SMALL_MIXTURES},
    "robust_probe": {"robust": RobustLinear(L2(0.2), Pgd(3), epochs=2, tolerance=0), "attacks": (Pgd(3),)},
    "fine_tuned_accuracy": {"fine_tuned": FineTuned(epochs=2, rate=0.05, batch_size=4), "threats": (Gamma(0.5),)},
    "retrieval": {"attack": Pgd(4), "k": (1, 5)},
    "task_retrieval": {"attack": Pgd(4), "k": (1, 5)},
    "caption_retrieval": {"attack": Pgd(4), "k": (1, 5), "path": captions([f"{i:06d}" for i in range(IMAGES)])},
    "matching": {"attack": Pgd(4), "rate": 0.05},
    "matching_radius": {"rate": 0.05, "steps": 20},
    "edited_matching": {"rate": 0.05},
    "breaking_edit": {"strengths": 3, "halvings": 1, "levels": 2},
    "transfer_rate": TRANSFER,
    "transfer_quantile": TRANSFER,
    "fine_tuned_drop": {"fine_tuned": FineTuned(epochs=2, rate=0.05, batch_size=4), "threats": (Gamma(0.5),)},
}
"""Parameters that make measures cheap, of those that are not read out along an attack."""


def attacks(name: str) -> bool:
    return issubclass(registry.find("measures", name), AttackMeasure)


def measure(name: str) -> Measure:
    return registry.find("measures", name)(**(ATTACK if attacks(name) else SMALL.get(name, {})))


def check(name: str) -> Check:
    small = {
        "steps_converged": {"attack": Pgd(4)},
        "stronger_attack": {"attack": Pgd(4), "stronger": Apgd(8), "examined": 5},
        "masking": {"attack": Pgd(4), "free": Square(20), "examined": 5},
        "large_radius": {"attack": Pgd(4), "examined": 5},
        "transfer_order": {"attack": Pgd(4), "ball": Linf(0.05), "transfers": measure("transfer_rate").transfers},
        "noise_order": {
            "measures": tuple(
                map(measure, ("adversarial_robustness", "worst_noise_robustness", "probabilistic_robustness"))
            )
        },
        "radius_order": {"pairs": measure("certified_radius"), "classes": measure("linear_radius")},
    }
    return registry.find("checks", name)(**small.get(name, {}))


SEARCHING = (
    "smoothed", "radii", "proved_radii", "common_negative_radii", "sampled", "rare_failures", "edited", "harmful_pair",
)  # fmt: skip
"""Observations that decide themselves how often they probe, or when enough is drawn."""

MEASURES = registry.names("measures")
ATTACKING = tuple(filter(attacks, MEASURES))
CHECKS = registry.names("checks")


class Judged(Arrays):
    """Images of which those that are attacked are queries, and every other one is relevant to one of these.

    So they are chosen in the same order as without judgments.
    """

    @property
    def relevance(self) -> Relevance:  # pyright: ignore[reportIncompatibleVariableOverride]
        order = [int(name) for name in ImageSet(Arrays(self._images)).ids]
        queries, others = order[: min(ATTACKED, len(order) // 2)], order[min(ATTACKED, len(order) // 2) :]
        pairs = [(queries[place % len(queries)], other) for place, other in enumerate(others)]
        grades = torch.ones(len(pairs), dtype=torch.int64)
        return Relevance(torch.isin(torch.arange(len(order)), torch.tensor(queries)), torch.tensor(pairs), grades, 16)


def audit(folder: Path, encoder: Encoder, x: torch.Tensor, **plan) -> dict:
    asked = Plan(("it",), "arrays", images=IMAGES, attacked=ATTACKED, **{"batch_size": 8, **plan})
    return run_audit(asked, folder, encoders={"it": encoder}, source=Judged(x, LABELS[: len(x)]))


@pytest.fixture(scope="module")
def pictures() -> torch.Tensor:
    return torch.rand(IMAGES, 1, 8, 8, generator=torch.Generator().manual_seed(5))


def network(seed: int = 0) -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 12))
    return Encoder(net, mean=0.5, std=0.5, origin={"normalisation": "a test"}, grid=Grid(2, 3, 2))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, pictures: torch.Tensor) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("audit")
    with pytest.MonkeyPatch.context() as patch:
        # as on a CUDA device, in reduced precision or compiled, where a pass has one gradient and no second
        patch.setattr("holdfast.core.encoder.needs_care", lambda device: True)
        parts = {"measures": tuple(map(measure, MEASURES)), "checks": tuple(map(check, CHECKS))}
        return folder, audit(folder, network(), pictures, **parts)


def test_nothing_failed_and_passes_are_as_predicted(run) -> None:
    _, record = run
    (entry,) = record["encoders"]
    assert record["failures"] == []
    spared = dict.fromkeys(("forward", "backward", "bounds"), 0)
    for observation in entry["observations"]:
        part, spent, predicted = (observation[key] for key in ("part", "passes", "predicted"))
        # drawing may end early, there are fewer classes than attacks on them, and searches decide how often they probe
        if part["name"] in SEARCHING or part.get("probe") is not None:
            for key in predicted:
                spared[key] += predicted[key] - spent[key]
                assert 0 <= spent[key] <= predicted[key] or key == "bounds", observation["title"]
            assert any(spent.values()), observation["title"]
        else:
            assert spent == predicted, observation["title"]
    passes = entry["passes"]
    assert {key: passes[key] + spared[key] for key in spared} == passes["predicted"]
    assert passes["alone"]["forward"] > passes["measures"]["forward"]


def test_measures_give_scores_with_intervals_and_a_table(run, subtests: pytest.Subtests) -> None:
    folder, record = run
    for name, entry in record["encoders"][0]["measures"].items():
        with subtests.test(name):
            _has_scores_with_intervals_and_a_table(name, entry, folder)


def _has_scores_with_intervals_and_a_table(name: str, entry: dict, folder: Path) -> None:
    assert entry["error"] is None
    table = pq.read_table(folder / entry["table"])
    assert table.column_names[0] == "id"
    rows = 2 * len(SMALL_MIXTURES.separations) if name == "synbench" else None  # synthetic images, in two halves
    assert table.num_rows in (IMAGES, ATTACKED, rows)
    assert entry["column"] in table.column_names
    assert entry["headline"] == list(entry["scores"])[-1]
    if attacks(entry["part"]["name"]):
        assert entry["headline"] == ("worst found" if name == "nearest_neighbour_accuracy" else "4 steps")
        assert {"2 steps", "4 steps"} <= set(entry["scores"])
    for title, score in entry["scores"].items():
        if score["interval"].startswith("none") or title == "best ε":  # what was set; one of few numbers
            continue
        if score["low"] is None:
            assert score["high"] is None
            assert score["note"]
            continue
        assert score["low"] <= score["value"] <= score["high"]
        ties = name in ("universal_quantile", "certified_drift")  # few pairs
        assert score["low"] < score["high"] or ties or "even at the upper end" in score["note"]
        assert score["n"] > 0
        assert score["interval"]


def test_hubs_are_shown_with_whose_searches_they_take(run) -> None:
    folder, record = run[:2]
    hubs = record["encoders"][0]["hubs"]
    # Three of the search that a measure reads, none of those that checks alone make
    assert {hub["title"] for hub in hubs} == {"searches by l2", "searches by cosine"}
    assert len(hubs) == 6
    for hub in hubs:
        assert hub["asked"] == record["data"]["images"] - 1
        assert len(hub["queries"]) == min(8, hub["taken"])
        files = [hub[kind] for kind in ("clean", "attacked", "difference")] + [q["picture"] for q in hub["queries"]]
        assert all((folder / file).exists() for file in files)


def test_every_score_knows_what_each_image_moves_it_by(run, subtests: pytest.Subtests) -> None:
    """So that any of them can be compared image by image, and not the headline alone."""
    opened = open_run(run[0])
    for name, entry in opened.record.encoders[0].measures.items():
        asked = registry.build(entry.part)
        _, table = opened.table(str(entry.table))
        units = len(asked.influence(table))
        for title, score in entry.scores.items():
            with subtests.test(f"{name}, {title}"):
                influence = asked.influence(table, title)
                assert influence.isfinite().all()
                if title in ("best ε", "ε of the robust head", "images learned from that hold"):  # moved by no image
                    assert not influence.any()
                    continue
                # a collision is of a pair of images, an evasion of one
                assert len(influence) in (units, units // 2)
                if score.low is not None and "without exception" not in score.interval:
                    assert influence.any() or score.value in (0, 1)


def test_checks_give_a_verdict(run, subtests: pytest.Subtests) -> None:
    checks = run[1]["encoders"][0]["checks"]
    assert tuple(sorted(checks)) == CHECKS
    for name, entry in checks.items():
        with subtests.test(name):
            expected = ("skip",) if name == "precision" else ("pass", "warn", "fail")  # searches in float32
            assert entry["status"] in expected
            assert entry["finding"]
            assert entry["meaning"].endswith((".", "?"))


@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_measures_depend_on_neither_batch_size_nor_company(half: int, run, pictures, tmp_path, subtests) -> None:
    """Company may add to what was found in a ball, see `shared_searches`; all else is what it is beside others."""
    parts = tuple(map(measure, MEASURES[half::2]))
    with typechecker.off():  # of which nobody asks anything new after `run`
        others = audit(tmp_path, network(), pictures, measures=parts, checks=(), batch_size=IMAGES + 1)
    for name, entry in others["encoders"][0]["measures"].items():
        there = run[1]["encoders"][0]["measures"][name]["scores"]
        assert entry["scores"].keys() == there.keys()
        for title, score in entry["scores"].items():
            with subtests.test(f"{name}, {title}"):
                if title.endswith("worst found") or name == "adversarial_robustness":
                    worse = score["value"] - there[title]["value"]
                    assert (worse if entry["better"] == "higher" else -worse) >= -RTOL
                elif there[title]["value"] is None:
                    assert score["value"] is None
                else:
                    assert score["value"] == pytest.approx(there[title]["value"], rel=RTOL, abs=RTOL)


@pytest.mark.slow
def test_measures_take_an_ensemble(pictures, tmp_path, subtests: pytest.Subtests) -> None:
    parts = tuple(registry.find("measures", name)(attack=Ensemble((Pgd(3), Square(6)))) for name in ATTACKING)
    record = audit(tmp_path, network(), pictures, measures=parts, checks=())
    assert record["failures"] == []
    for name, entry in record["encoders"][0]["measures"].items():
        with subtests.test(name):
            assert "strongest" in entry["scores"]
            event = name == "nearest_neighbour_accuracy"
            assert entry["headline"] == ("worst found" if event else "strongest")


def test_an_ensemble_is_not_disturbed_by_a_longer_run_of_a_member(pictures, tmp_path) -> None:
    """Its members' trajectories may go on for another measure; it is read out where they end for it."""
    risk = registry.find("measures", "breakaway_risk")
    short = risk(attack=Ensemble((Pgd(2, 0.02, keep="last"), Pgd(2, 0.001, keep="last"))))
    long = (risk(attack=Pgd(9, 0.02, keep="last")), risk(attack=Pgd(9, 0.001, keep="last")))
    alone = audit(tmp_path / "alone", network(), pictures, measures=(short,), checks=())
    company = audit(tmp_path / "company", network(), pictures, measures=(short, *long), checks=())
    assert len(company["encoders"][0]["observations"]) == 3
    names = [name for name in company["encoders"][0]["measures"] if "ensemble" in name]
    (first,) = alone["encoders"][0]["measures"].values()
    assert first["scores"] == company["encoders"][0]["measures"][names[0]]["scores"]


def test_usual_readouts_follow_the_attack() -> None:
    cls = registry.find("measures", "universal_quantile")
    assert cls(attack=Pgd(50)).steps == (5, 10, 30, 50)
    assert cls(attack=Pgd(20)).steps == (5, 10, 20)
    assert cls(attack=Pgd(3)).steps == (3,)
    assert cls(attack=Pgd(20), readouts=(7,)).steps == (7,)


class Constant(nn.Module):
    """Maps every image to one vector."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)[:, :4] * 0 + 1


@pytest.fixture(scope="module")
def beside_a_constant(tmp_path_factory: pytest.TempPathFactory, pictures: torch.Tensor) -> dict:
    checks = tuple(map(check, ("collapse", "gradient_health", "large_radius")))
    plan = Plan(("constant", "net"), "arrays", tuple(map(measure, (*ATTACKING, "overlap_risk"))), checks)
    encoders = {"constant": Encoder(Constant(), mean=0, std=1, grid=Grid(2, 2, 1)), "net": network()}
    return run_audit(
        replace(plan, images=IMAGES, attacked=ATTACKED, batch_size=8),
        tmp_path_factory.mktemp("constant"),
        encoders=encoders,
        source=Arrays(pictures, LABELS),
    )


def test_a_constant_encoder_gets_defined_values_and_a_failed_check(beside_a_constant) -> None:
    record = beside_a_constant
    entry = record["encoders"][0]
    value = {name: m["scores"][m["headline"]]["value"] for name, m in entry["measures"].items()}
    assert value["universal_quantile"] == 1
    assert value["breakaway_risk"] == 0
    assert value["nearest_neighbour_accuracy"] == 1
    assert value["overlap_risk"] == 0
    assert value["relative_quantile"] is None
    assert value["adversarial_margin"] is None
    assert value["patch_drift"] is value["patch_breakaway"] is value["segment_kept"] is None
    assert "undefined" in entry["measures"]["relative_quantile"]["scores"]["4 steps"]["note"]
    assert entry["checks"]["collapse"]["status"] == "fail"
    assert entry["checks"]["gradient_health"]["status"] == "fail"
    assert entry["checks"]["large_radius"]["status"] == "fail"


class Coupled(nn.Module):
    """Subtracts the mean of the batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1) - x.flatten(1).mean(0)


class Random(nn.Module):
    """Adds noise."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1) + 0.1 * torch.randn(len(x), 64)


class Counting(nn.Module):
    """Has a buffer that moves."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += len(x)
        return x.flatten(1)


class Masked(nn.Module):
    """Rounds its input, so that gradients (straight through a tiny slope) say nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.flatten(1) * 8).round() + 1e-4 * torch.sin(1e4 * x.flatten(1))


class Behind(nn.Module):
    """A network whose representations lie behind numbers that are large, and the same or nearly so for all images."""

    def __init__(self, inner: nn.Module, how: str) -> None:
        super().__init__()
        self.inner, self.how = inner, how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        reps = self.inner(x)
        side = torch.full_like(reps[:, :1], 3e5)
        match self.how:
            case "a constant":
                return torch.cat([reps, side], 1)
            case "an offset":
                return reps + 3e3
            case "two clouds":
                return torch.cat([reps, side * (x.mean((1, 2, 3)) > 0.5)[:, None]], 1)
        return torch.cat([reps, side * (x[:, :, 0, 0] > 0.9)], 1)  # some images far away


class OfModes(nn.Module):
    """Computes something else where gradients are wanted."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wanted = torch.is_grad_enabled() if self.way == "mode" else x.requires_grad
        return (x.flip(3) if wanted else x).flatten(1)


HIDDEN = ("a constant", "an offset", "two clouds", "images far away")


def hidden(inner: nn.Module, name: str, status: str, fast: str) -> list[Any]:
    """Return cases of all ways to hide a network, one of them for the fast suite."""
    return [pytest.param(Behind(inner, how), name, status, marks=[pytest.mark.slow] * (how != fast)) for how in HIDDEN]


@pytest.mark.parametrize(
    ("module", "name", "status"),
    [
        (Coupled(), "batch_independence", "fail"),
        (Random(), "frozen", "fail"),
        (Masked(), "masking", "fail"),
        *hidden(Coupled(), "batch_independence", "fail", fast="two clouds"),
        *hidden(Random(), "frozen", "fail", fast="a constant"),
        *hidden(nn.Flatten(), "batch_independence", "pass", fast="images far away"),
        *hidden(nn.Flatten(), "frozen", "pass", fast="an offset"),
        *((OfModes(way), "frozen", "fail") for way in ("mode", "requires grad")),
        *hidden(OfModes("mode"), "frozen", "fail", fast="images far away"),
    ],
)
def test_checks_catch_what_they_are_for(module, name, status, pictures, tmp_path) -> None:
    parts = {"measures": (measure("breakaway_risk"),), "checks": (check(name),)}
    record = audit(tmp_path, Encoder(module, mean=0, std=1), pictures, **parts)
    assert record["encoders"][0]["checks"][name]["status"] == status


def test_a_search_that_gets_nowhere_is_told_without_a_percentage() -> None:
    """A rise of nothing is no number to divide by: "+5.9e+31 %" says less than that the other search got somewhere."""
    nowhere = torch.zeros(3, dtype=torch.float64)
    assert in_words(gain_of(times_as_far(nowhere + 1e-3, nowhere))) == "at least 1,000 times as far"
    assert in_words(gain_of(times_as_far(nowhere, nowhere))) == "+0.0 % farther"
    assert in_words(gain_of(times_as_far(nowhere + 3, nowhere + 2))) == "+50.0 % farther"


def test_an_encoder_that_changes_itself_is_refused(pictures, tmp_path) -> None:
    with pytest.raises(NothingAudited, match="buffers"):
        audit(tmp_path, Encoder(Counting(), mean=0, std=1), pictures, measures=(measure("breakaway_risk"),), checks=())


class Whitened(nn.Module):
    """Divides by the deviation of the batch: NaN for a batch of one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.flatten(1) - x.flatten(1).mean(0)
        return y / y.square().mean(0).sqrt()


def test_nan_is_a_failed_check_and_not_the_end_of_the_record(pictures, tmp_path) -> None:
    parts = {"measures": (measure("breakaway_risk"),), "checks": (check("batch_independence"),)}
    record = audit(tmp_path, Encoder(Whitened(), mean=0, std=1), pictures, **parts)
    entry = record["encoders"][0]
    assert entry["checks"]["batch_independence"]["status"] == "fail"
    assert entry["checks"]["batch_independence"]["details"] == {"relative difference": None}
    assert (tmp_path / "record.json").exists()


def test_a_collapsed_encoder_is_never_best(beside_a_constant) -> None:
    assert "constant" not in {entry["best"] for entry in beside_a_constant["comparison"].values()}


def test_dark_images_are_noticed(pictures, tmp_path) -> None:
    parts = {"measures": (measure("breakaway_risk"),), "checks": (check("input_range"),)}
    record = audit(tmp_path, network(), pictures / 255, **parts)
    found = record["encoders"][0]["checks"]["input_range"]
    assert found["status"] == "fail"
    assert found["doubt"] == f"an unusual range of pixels (0.000 to {pictures.max() / 255:.3f})"


def test_white_that_is_16_of_255_is_told_with_the_warning(pictures, tmp_path) -> None:
    parts = {"measures": (measure("breakaway_risk"),), "checks": (check("input_range"),)}
    record = audit(tmp_path, network(), (pictures - pictures.min()) / pictures.max() * 16 / 255, **parts)
    found = record["encoders"][0]["checks"]["input_range"]
    assert found["status"] == "warn"
    assert found["doubt"].startswith("an unusual range of pixels (0.000 to 0.06")
    assert "of 255, is white, divide by it" in found["meaning"]
