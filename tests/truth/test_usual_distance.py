"""The usual distance as a unit: its median by a loop, its error by other samples, and what that does to means."""

import math

import pytest
import torch

from holdfast.numerics import statistics
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.measures.shared.usual_distance import MOVES, UNIT, InUnits, usual_distance

DIM, EACH = 3, 2


def sample(images: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two points of each image, which are near each other, and the image of each."""
    centres = torch.randn(images, DIM, generator=generator, dtype=torch.float64)
    points = centres[:, None] + 0.3 * torch.randn(images, EACH, DIM, generator=generator, dtype=torch.float64)
    return points.flatten(0, 1), torch.arange(images).repeat_interleave(EACH)


def test_the_median_is_that_of_pairs_of_different_images() -> None:
    points, image = sample(7, torch.Generator().manual_seed(0))
    pairs = [
        float((points[i] - points[j]).norm())
        for i in range(len(points))
        for j in range(i)
        if image[i] != image[j]
    ]  # fmt: skip
    columns = usual_distance(points, image, 9, L2())  # two images have no point
    assert columns[UNIT].tolist() == pytest.approx([sorted(pairs)[(len(pairs) - 1) // 2]] * 9)
    assert columns[MOVES][7:].tolist() == [0, 0]
    assert float(columns[MOVES].sum()) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("images", [40, 200])
def test_what_images_move_adds_up_to_the_spread_over_samples(images: int) -> None:
    generator = torch.Generator().manual_seed(images)
    tables = [usual_distance(*sample(images, generator), images, L2()) for _ in range(150)]
    medians = torch.stack([table[UNIT][0] for table in tables])
    error = torch.stack([table[MOVES].norm() for table in tables]).mean()
    assert float(error) == pytest.approx(float(medians.std() / medians.mean()), rel=0.25)


def test_images_far_from_all_others_raise_the_unit() -> None:
    points = torch.cat([torch.linspace(0, 1, 19), torch.tensor([30.0])])[:, None]
    assert int(usual_distance(points, torch.arange(20), 20, L2())[MOVES].argmax()) in (0, 18, 19)


def test_a_mean_in_units_knows_the_error_of_the_unit() -> None:
    """Drifts that hardly differ: nearly all that is unknown is the unit."""
    generator = torch.Generator().manual_seed(3)
    table = usual_distance(*sample(60, generator), 60, L2())
    table["drift"] = 0.5 + 1e-4 * torch.randn(60, generator=generator, dtype=torch.float64)
    score, alone = InUnits(table, "drift").score(), statistics.mean(table["drift"])
    width = 2 * 2.001 * 0.5 * float(table[MOVES].norm())  # Student's t of 59 degrees
    assert score.high - score.low == pytest.approx(width, rel=0.05)
    assert score.high - score.low > 20 * (alone.high - alone.low)


def test_distances_that_follow_the_unit_tell_more_than_either() -> None:
    """Each drift is a fixed share of what its image does to the unit: the ratio hardly varies."""
    generator = torch.Generator().manual_seed(4)
    table = usual_distance(*sample(60, generator), 60, L2())
    table["with"] = 0.5 + 0.5 * 60 * table[MOVES]
    table["against"] = 0.5 - 0.5 * 60 * table[MOVES]
    widths = {name: (score := InUnits(table, name).score()).high - score.low for name in ("with", "against")}
    assert widths["with"] < 0.3 * widths["against"]
    assert float(InUnits(table, "with").influence().norm()) < 1e-9


def test_differences_may_be_negative_and_images_unattacked() -> None:
    generator = torch.Generator().manual_seed(5)
    table = usual_distance(*sample(30, generator), 30, L2())
    values = 0.2 * torch.randn(30, generator=generator, dtype=torch.float64) - 0.1
    values[20:] = math.nan
    table["difference"] = values
    score = InUnits(table, "difference", "paired by image").score()
    assert (score.n, score.note) == (20, "")
    assert score.low < float(values[:20].mean()) == score.value < score.high


@pytest.mark.parametrize("points", [torch.zeros(4, 2), torch.randn(2, 2)])
def test_no_unit_is_no_number(points: torch.Tensor) -> None:
    image = torch.arange(len(points)) if len(points) == 4 else torch.zeros(2, dtype=torch.long)
    table = usual_distance(points, image, 4, L2())
    assert table[UNIT].isnan().all()
    table["drift"] = torch.ones(4) / table[UNIT]
    assert InUnits(table, "drift").score().value is None
