"""On encoders whose robustness is known from their training, every label-free measure ranks them as it should."""

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.core import registry
from holdfast.parts.measures.certified.certified_radius import CertifiedRadius
from json_records import run_audit

BETTER = {
    "universal_quantile": "lower",
    "cosine_to_self": "higher",
    "breakaway_risk": "lower",
    "breaking_radius": "higher",
    "nearest_neighbour_accuracy": "higher",
    "relative_quantile": "higher",
    "cosine_to_target": "lower",
    "overlap_risk": "lower",
    "adversarial_margin": "higher",
}


def headlines(entry: dict) -> dict[str, dict]:
    return {name: m["scores"][m["headline"]] for name, m in entry["measures"].items()}


def apart(better: str, robust: dict, fragile: dict) -> bool:
    """Whether the intervals do not overlap, in the right order."""
    return robust["high"] < fragile["low"] if better == "lower" else robust["low"] > fragile["high"]


@pytest.mark.slow
def test_rvcl_mnist_encoders_rank_by_their_training(shared: Path, tmp_path: Path) -> None:
    """Wang and Liu's CNN-A trained with ε .2 is more robust than the one trained with ε 0."""
    files = [shared / "data" / "encoders" / f"mnist_cnn_a_eps{eps}.safetensors" for eps in ("0", "0.2")]
    encoders = [f"file:{file}?mean=0&std=1&label={file.stem}" for file in files]
    data = str(shared / "data" / "mnist_test.npz")
    plan = make_plan(AuditRequest(encoders, data, profile="standard", eps=0.1, images=300, attacked=160))
    asked = [measure for measure in plan.measures if registry.part_name(measure) in BETTER]
    proved = CertifiedRadius(negatives=5, steps=20, tolerance=2e-3, first=8)
    record = run_audit(replace(plan, measures=(*asked, proved), checks=()), tmp_path)
    assert record["failures"] == []
    fragile, robust = map(headlines, record["encoders"])
    assert set(robust) >= set(BETTER)
    assert robust["certified_radius"]["low"] > fragile["certified_radius"]["high"]
    for name, better in BETTER.items():
        assert apart(better, robust[name], fragile[name]), (name, robust[name], fragile[name])
        assert record["comparison"][name]["best"] == "mnist_cnn_a_eps0.2"


@pytest.mark.slow
def test_the_shipped_hardened_digit_encoder_is_better(tmp_path: Path) -> None:
    """On half of the demo's images; the intervals of four risks do not overlap."""
    encoders = ("zoo:digits-simclr", "zoo:digits-simclr-adv")
    risks = ("breakaway_risk", "breaking_radius", "overlap_risk", "universal_quantile")
    plan = make_plan(AuditRequest(encoders, "digits", profile="standard", eps=0.15, images=600, attacked=300))
    asked = tuple(measure for measure in plan.measures if registry.part_name(measure) in risks)
    record = run_audit(replace(plan, measures=asked, checks=()), tmp_path)
    fragile, robust = map(headlines, record["encoders"])
    for name in risks:
        assert apart(BETTER[name], robust[name], fragile[name]), (name, robust[name], fragile[name])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "encoders"),
    [
        ("photos", ["timm:resnet18?weights=random", "timm:vit_tiny_patch16_224?weights=random"]),
        (
            "cifar10_lossless300.npz",
            [
                "file:{0}/cifar10_cnn_b_eps0.safetensors?mean=0.485,0.456,0.406&std=0.225,0.225,0.225",
                "file:{0}/cifar10_cnn_b_eps4.4.safetensors?mean=0.485,0.456,0.406&std=0.225,0.225,0.225",
                "file:{0}/cifar10_deep_eps4.4.safetensors?mean=0.485,0.456,0.406&std=0.225,0.225,0.225",
                "file:{0}/cifar10_resnet20_supervised.safetensors?mean=0.485,0.456,0.406&std=0.229,0.224,0.225",
            ],
        ),
        ("mnist_test.npz", ["file:{0}/mnist_base_eps0.safetensors?mean=0&std=1"]),
    ],
)
def test_real_encoders_on_real_images(shared: Path, tmp_path: Path, data: str, encoders: list[str]) -> None:
    """The audit runs to the end, with nothing failed and the passes that were predicted."""
    specs = [spec.format(shared / "data" / "encoders") for spec in encoders]
    plan = make_plan(AuditRequest(specs, str(shared / "data" / data), profile="quick", images=48, attacked=8))
    record = run_audit(plan, tmp_path)
    assert record["failures"] == []
    for entry in record["encoders"]:
        passes = entry["passes"]
        for kind in ("forward", "backward"):  # certificates that are not to be had make no passes for their attacks
            assert passes[kind] <= passes["predicted"][kind]
