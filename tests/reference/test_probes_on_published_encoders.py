"""Probes and corruptions on published encoders and real images."""

from pathlib import Path

import pytest

from holdfast.auditing.plan import Plan
from holdfast.parts.measures.classifiers.probe_accuracy import ProbeAccuracy
from holdfast.parts.measures.corruptions.corruption_drift import CorruptionDrift
from holdfast.parts.measures.corruptions.neighbour_consistency import NeighbourConsistency
from holdfast.parts.measures.corruptions.relative_drop import RelativeDrop
from holdfast.parts.probes.knn import Knn
from holdfast.parts.probes.trained import Trained
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.global_shuffle import GlobalShuffle
from holdfast.parts.threats.imagenet_c import ImagenetC
from json_records import run_audit

THREATS = (Gamma(0.2), Gamma(5.0), GlobalShuffle(4), *(ImagenetC(name, 3) for name in ("fog", "jpeg_compression")))


@pytest.mark.slow
def test_resnet20_classifies_and_its_drops_are_foretold_without_labels(shared: Path, tmp_path: Path) -> None:
    """91.78 % on all 10,000 test images, so above 88 % on 300; drift and neighbours order corruptions as Δ does."""
    data = shared / "data"
    file = data / "encoders" / "cifar10_resnet20_supervised.safetensors"
    encoder = f"file:{file}?mean=0.485,0.456,0.406&std=0.229,0.224,0.225"
    asked = (
        ProbeAccuracy(Trained(str(file), "linear")),
        ProbeAccuracy(Knn(50)),
        RelativeDrop(Knn(50), threats=THREATS),
        CorruptionDrift(THREATS),
        NeighbourConsistency(THREATS),
    )
    train = str(data / "cifar10_train25k.npz")
    plan = Plan((encoder,), str(data / "cifar10_lossless300.npz"), asked, train=train, train_images=1000)
    record = run_audit(plan, tmp_path)
    assert record["failures"] == []
    measures = record["encoders"][0]["measures"]
    for key in ("probe_accuracy[probe=trained]", "probe_accuracy[probe=knn]"):
        assert measures[key]["scores"]["top-1"]["value"] > 0.88
    order = {(r["first"], r["second"]): r["spearman"]["value"] for r in record["relations"]}
    assert order["corruption_drift", "relative_drop"] > 0.8
    assert order["neighbour_consistency", "relative_drop"] < -0.8
