"""The smoothed linear probe, on a linear encoder: the probability of a class, and so the radius, is known."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from holdfast.auditing.plan import Plan, merge
from holdfast.core import Encoder, Rng
from holdfast.parts.measures.smoothed.smoothed_accuracy import SmoothedAccuracy
from holdfast.parts.measures.smoothed.smoothed_probe_accuracy import SmoothedProbeAccuracy
from holdfast.parts.measures.smoothed.smoothed_radius import SmoothedRadius
from holdfast.parts.observations.smoothed import Smoothed
from holdfast.parts.observations.training import Training
from holdfast.parts.probes.linear import Linear
from holdfast.parts.smoothing.classifier import Classifier
from holdfast.parts.threats.gaussian import Gaussian
from holdfast.runtime.errors import BadValue, Missing
from json_records import run_audit

SIGMA = 0.1


def planes(size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Grey 1 x 4 images whose class says on which side of ½ their mean lies; the margin differs from image to image."""
    random = np.random.default_rng(seed)
    labels = np.arange(size) % 2
    distance = random.uniform(0.02, 0.25, size) * np.where(labels == 1, 1, -1)
    return (0.5 + distance[:, None, None] + np.zeros((size, 2, 2))).astype(np.float32), labels


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory):
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("smoothed")
    for name, size, seed in (("test", 40, 1), ("train", 400, 2)):
        images, labels = planes(size, seed)
        np.savez(folder / f"{name}.npz", images=images, labels=labels)
    measure = SmoothedProbeAccuracy(SIGMA, Classifier(draws=1000, probe=Linear()))
    first = SmoothedRadius(SIGMA)  # shares the draws, and is asked first
    encoder = Encoder(nn.Flatten(), mean=0, std=1)
    plan = Plan(("it",), str(folder / "test.npz"), (first, measure), train=str(folder / "train.npz"))
    record = run_audit(plan, folder / "out", encoders={"it": encoder})
    assert record["failures"] == []
    entry = record["encoders"][0]["measures"]["smoothed_probe_accuracy"]
    again = {pair["image"] for pair in record["data"]["duplicates"]}  # grey images of nearly one level count once
    table = pq.read_table(folder / "out" / entry["table"]).to_pylist()
    rows = [row for row in table if row["id"] not in again]
    return entry["scores"], {name: [row[name] for row in rows] for name in rows[0]}


def test_radii_are_at_most_the_distance_to_the_plane_and_near_it(found) -> None:
    """A linear classifier smoothed by Gaussian noise is itself, so its largest radius is the distance to the plane."""
    scores, table = found
    by_id = dict(zip(table["id"], table["radius"], strict=True))
    images, _ = planes(40, 1)
    for name, radius in by_id.items():
        truth = abs(float(images[int(name)].mean()) - 0.5) * 2  # ||1/2 * (1,1,1,1)|| = 1
        assert radius <= truth + 0.06  # the head's plane is learned, not given
        if 0.06 < truth < 0.2:
            assert radius > truth - 0.1
    assert scores["found"]["value"] > 0.7
    assert scores["average radius"]["value"] == pytest.approx(np.mean(np.array(table["radius"]) * table["found"]))
    right = np.array(table["radius"])[np.array(table["found"]) == 1]
    assert scores["average radius of those found"]["value"] == pytest.approx(right.mean())


def test_the_head_learns_from_the_noise_that_certificates_draw(tmp_path: Path) -> None:
    """Pixels that leave [0, 1]: what is clamped for training images is not clamped for the draws."""
    seen: list[float] = []

    class Watching(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(float(x.min()))
            return x.flatten(1)

    for name, size, seed in (("test", 10, 1), ("train", 40, 2)):
        images, labels = planes(size, seed)
        np.savez(tmp_path / f"{name}.npz", images=images, labels=labels)
    encoder = Encoder(Watching(), mean=0, std=1)
    plan = Plan(("it",), str(tmp_path / "test.npz"), (SmoothedProbeAccuracy(0.5),), train=str(tmp_path / "train.npz"))
    assert Training(Gaussian(0.5, clamped=False)) in plan.observations
    x = torch.zeros(1, 1, 2, 2)
    assert float(Gaussian(0.5, clamped=False).sample(x, Rng(0, ids=("a",))).min()) < 0
    assert float(Gaussian(0.5).sample(x, Rng(0, ids=("a",))).min()) == 0
    run_audit(plan, tmp_path / "out", encoders={"it": encoder})
    assert min(seen) < 0


def test_without_a_probe_s_images_label_free_smoothing_still_has_its_draws() -> None:
    both = merge([("a", SmoothedProbeAccuracy(0.1).observations()), ("b", SmoothedAccuracy(0.1).observations())])
    assert sum(isinstance(observation, Smoothed) for observation in both) == 2


def test_each_kind_of_class_has_its_measure() -> None:
    with pytest.raises(BadValue, match="smoothed_accuracy"):
        SmoothedProbeAccuracy(certificate=Classifier())
    with pytest.raises(BadValue, match="smoothed_probe_accuracy"):
        SmoothedAccuracy(certificate=Classifier(probe=Linear()))


def test_labels_are_needed(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", images=planes(10, 0)[0])
    plan = Plan(("it",), str(tmp_path / "x.npz"), (SmoothedProbeAccuracy(),))
    with pytest.raises(Missing, match="smoothed_probe_accuracy"):
        run_audit(plan, tmp_path / "out", encoders={"it": Encoder(nn.Flatten(), mean=0, std=1)})
