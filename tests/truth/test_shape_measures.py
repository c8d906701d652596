"""Measures of the feature space's shape, where the answer is known."""

from typing import Any

import pytest
import torch
from test_linear_probe import Labelled

from holdfast.core import HoldfastError
from holdfast.parts.checks.dimension_collapse import DimensionCollapse
from holdfast.parts.measures.feature_space.alignment import Alignment
from holdfast.parts.measures.feature_space.class_uniformity import ClassUniformity
from holdfast.parts.measures.feature_space.effective_rank import EffectiveRank
from holdfast.parts.measures.feature_space.feature_distance import FeatureDistance
from holdfast.parts.measures.feature_space.hubness import Hubness
from holdfast.parts.measures.feature_space.uniformity import Uniformity
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.represented import Represented
from holdfast.parts.threats.gamma import Gamma
from holdfast.runtime.errors import BadValue, NotEnough

LABELS = torch.arange(12) % 3


def values(measure, subject: Labelled) -> dict[str, float | None]:
    return {name: score.value for name, score in measure.score(measure.observe(subject)).items()}


def random(size: int, dim: int) -> torch.Tensor:
    return torch.randn(size, dim, generator=torch.Generator().manual_seed(3))


def test_orthogonal_images_are_uniform_and_one_direction_is_not() -> None:
    orthogonal, line = Labelled(5 * torch.eye(12), LABELS, 4), Labelled(torch.ones(12, 3), LABELS, 4)
    assert values(Uniformity(), orthogonal)["uniformity"] == pytest.approx(4)
    assert values(Uniformity(), line)["uniformity"] == pytest.approx(0)
    assert values(ClassUniformity(), orthogonal)["mean over classes"] == pytest.approx(4)
    assert values(EffectiveRank(), orthogonal)["effective rank"] == pytest.approx(11)  # centred: one direction less


def test_classes_that_are_points_are_not_uniform_though_the_whole_is() -> None:
    points = Labelled(torch.eye(3)[LABELS], LABELS, 4)
    found = values(ClassUniformity(), points)
    assert [found[f"class {c}"] for c in range(3)] == pytest.approx([0, 0, 0])
    assert values(Uniformity(), points)["uniformity"] > 0.2
    table = FeatureDistance().observe(points)
    assert float(table["within"].mean()) == pytest.approx(0)
    assert float(table["between"].mean()) == pytest.approx(2)
    assert FeatureDistance().score(table)["between / within"].value is None  # divided by nothing


def test_hubs_are_those_that_stand_in_many_lists() -> None:
    # One in the middle of many that are far from each other, and one that is far from all
    star = torch.cat([torch.zeros(1, 12), torch.eye(12)[:10], 9 * torch.eye(12)[11:]])
    subject, measure = Labelled(star, LABELS, 4), Hubness(k=1, top=1 / 12)
    table = measure.observe(subject)
    assert table["lists"].tolist() == [11, 1, *[0] * 10]
    found = values(measure, subject)
    assert found == pytest.approx({"in no list": 10 / 12, "hubs": 11 / 12})
    # All alike on a circle: everybody stands in two lists
    angle = torch.arange(12) * torch.pi / 6
    circle = Labelled(torch.stack([angle.cos(), angle.sin()], 1), LABELS, 4)
    assert values(Hubness(k=2, top=1 / 12), circle) == pytest.approx({"in no list": 0, "hubs": 1 / 12})


@pytest.mark.parametrize(("fields", "said"), [({"k": 11}, "at least 13 images"), ({"top": 1.0}, "in (0, 1), got 1")])
def test_hubs_that_cannot_be_told_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(HoldfastError) as error:
        Hubness(**fields).observe(Labelled(random(12, 3), LABELS, 4))
    assert said in str(error.value)


def test_feature_distance_is_the_mean_over_pairs() -> None:
    reps = random(12, 5)
    squared = torch.cdist(reps.double(), reps.double()).square()
    same, own = LABELS[:, None] == LABELS, torch.eye(12, dtype=torch.bool)
    inside = torch.stack([squared[(c == LABELS)[:, None] & same & ~own].mean() for c in range(3)])
    pairs = [squared[(a == LABELS)][:, b == LABELS].mean() for a in range(3) for b in range(3) if a != b]
    found = values(FeatureDistance(normalised=False), Labelled(reps, LABELS, 4))
    assert [found[f"within class {c}"] for c in range(3)] == pytest.approx(inside.tolist())
    assert found["between classes"] == pytest.approx(float(torch.stack(pairs).mean()))
    assert found["between / within"] == pytest.approx(float(torch.stack(pairs).mean() / inside.mean()))
    scaled = values(FeatureDistance(), Labelled(reps * torch.arange(1, 13)[:, None], LABELS, 4))
    assert scaled == pytest.approx(values(FeatureDistance(), Labelled(reps, LABELS, 4)))
    with pytest.raises(NotEnough):
        FeatureDistance().observe(Labelled(reps, torch.zeros(12, dtype=torch.long), 4))


class Viewed(Labelled):
    """A subject whose images all turn away by one angle when disturbed."""

    def read(self, observation) -> dict[str, torch.Tensor]:
        if isinstance(observation, Clean):
            return {"reps": self.reps}
        assert isinstance(observation, Represented)
        return {"reps": torch.stack([-self.reps[:4, 1], self.reps[:4, 0]], 1)}


def test_uniformity_under_a_threat_is_that_of_the_disturbed_images() -> None:
    subject = Viewed(random(12, 2), LABELS, 4)
    turned = Labelled(subject.read(Represented(threat=Gamma(5)))["reps"], LABELS[:4], 4)
    found = values(Uniformity(Gamma(5)), subject)
    assert found == pytest.approx(values(Uniformity(), turned))
    assert found != pytest.approx(values(Uniformity(), subject))  # these are all images, not the four attacked


def test_a_right_angle_has_alignment_two() -> None:
    found = values(Alignment((Gamma(0.2), Gamma(5))), Viewed(random(12, 2), LABELS, 4))
    assert found == pytest.approx({"γ 0.2": 2, "γ 5": 2, "average": 2})
    assert values(Alignment((Gamma(),), alpha=1.0), Viewed(random(12, 2), LABELS, 4)) == pytest.approx(
        {"γ 0.2": 2**0.5}
    )
    with pytest.raises(BadValue, match="alignment"):
        Alignment(alpha=0.0)


def test_unused_directions_are_told_apart_from_those_that_few_images_cannot_use() -> None:
    full = Labelled(random(12, 40), LABELS, 4)  # 12 images span at most 11 directions
    assert DimensionCollapse().judge(full).status == "pass"
    assert DimensionCollapse().judge(full).details["possible"] == 11
    flat = torch.cat([random(100, 3), torch.zeros(100, 7)], 1) @ torch.linalg.qr(random(10, 10))[0]
    verdict = DimensionCollapse().judge(Labelled(flat, None, 4))
    assert verdict.status == "warn"
    assert "3 of 10 directions in use" in verdict.finding
    half = torch.cat([random(100, 5), torch.zeros(100, 5)], 1)
    assert DimensionCollapse().judge(Labelled(half, None, 4)).status == "pass"
    assert DimensionCollapse(warn=0.4).judge(Labelled(half, None, 4)).status == "warn"
    assert DimensionCollapse().judge(Labelled(torch.ones(9, 4), None, 4)).status == "warn"


def test_influences_are_those_of_the_headline() -> None:
    """Doubling an image's weight moves the score as its influence says, in sign and in order."""
    subject = Labelled(random(12, 5), LABELS, 4)
    for measure in (Uniformity(), ClassUniformity(), FeatureDistance(), EffectiveRank()):
        influence = measure.influence(measure.observe(subject))
        assert influence.shape == (12,)
        assert float(influence.sum()) == pytest.approx(0, abs=1e-9)
        assert float(influence.abs().max()) > 0
