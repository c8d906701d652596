"""The robustness curve and the difference of two: what is drawn, said and held by their bands; everyday changes."""

import math
from dataclasses import replace

import pytest
import torch
from benchmarks.curve_coverage import LAWS, Law, simulate
from torch import Tensor, nn

from holdfast.core import Encoder, Rng, Shard
from holdfast.numerics.geometry.colour import lab
from holdfast.numerics.statistics.looks import looking
from holdfast.numerics.statistics.survival_differences import SurvivalDifference, survival_difference
from holdfast.parts.measures.neighbours.breaking_radius import BreakingRadius
from holdfast.parts.measures.shared.robustness_curve import curve_difference, difference_in_words, robustness_curve
from holdfast.parts.observations.everyday_changes import EverydayChanges
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import Mismatch

RUNS = pytest.mark.parametrize("runs", [40, pytest.param(1000, marks=pytest.mark.slow)])


def table(broken: list[float], proved: list[float] | None = None, population: int = 100) -> dict[str, Tensor]:
    radius = torch.tensor(broken, dtype=torch.float64)
    tried = torch.tensor(proved or [], dtype=torch.float64)
    rest = torch.full((len(radius) - len(tried),), torch.nan, dtype=torch.float64)
    return {
        "broken": radius, "halfway": radius, "proved": torch.cat([tried, rest]),
        "population": torch.full_like(radius, population), "jpeg": radius * 0 + 0.1, "visible": radius * torch.nan,
    }  # fmt: skip


@RUNS
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
@pytest.mark.parametrize("n", [16, pytest.param(64, marks=pytest.mark.slow)])
def test_bands_and_medians_hold_the_truth_as_often_as_they_say(law: Law, n: int, runs: int) -> None:
    covered = simulate(law, n, runs)
    least = 0.95 - 3 * math.sqrt(0.95 * 0.05 / runs)
    assert covered.band >= least
    assert covered.median >= least
    assert covered.difference >= least


def test_a_pair_tells_more_than_two_curves_apart() -> None:
    random = torch.Generator().manual_seed(0)
    images = torch.randn(200, generator=random).exp()
    alike, at = 1.3 * images, torch.linspace(0.1, 5, 50)
    paired = survival_difference(alike, images, at)
    unpaired = survival_difference(alike, images[torch.randperm(200, generator=random)], at)
    assert float((paired.high - paired.low).max()) < 0.8 * float((unpaired.high - unpaired.low).max())
    turned = survival_difference(images, alike, at)
    torch.testing.assert_close(turned.value, -paired.value)
    torch.testing.assert_close(turned.low, -paired.high)
    assert torch.equal(survival_difference(alike, images, at).low, paired.low)  # signs are seeded


def test_bands_of_later_looks_are_longer() -> None:
    radii, at = torch.arange(1.0, 40.0), torch.tensor([20.0])
    once = survival_difference(radii + 5, radii, at)
    with looking(3):
        again = survival_difference(radii + 5, radii, at)
    assert (again.high - again.low > 1.1 * (once.high - once.low)).all()


@pytest.mark.parametrize("n", [1, 4, 50])
def test_equal_radii_do_not_show_that_curves_are_equal(n: int) -> None:
    radii = torch.arange(1.0, n + 1)
    gap = survival_difference(radii, radii, torch.tensor([0.5, 2.0]))
    assert gap.value.tolist() == [0, 0]
    assert gap.high.tolist() == pytest.approx([1 - 0.05 ** (1 / n)] * 2, abs=0.5 / n + 1e-12)
    assert (gap.high >= 1 - 0.05 ** (1 / n) - 1e-12).all()


def test_between_what_is_proved_and_what_is_broken_is_open() -> None:
    observed = table([0.01, 0.02, 0.04, 0.08, 0.16, torch.inf], proved=[0.005, 0.015, 0.0])
    curve = robustness_curve(observed, Linf(), "")
    assert curve is not None
    solid, dashed = curve.lines
    at = torch.tensor(solid.x)
    place = int((at - 0.012).abs().argmin())  # one of the three is broken, one proved
    assert dashed.y[place] == dashed.low[place] == pytest.approx(1 / 3, abs=1e-6)
    assert dashed.high[place] == pytest.approx(2 / 3, abs=1e-6)
    assert solid.y[place] == pytest.approx(5 / 6, abs=1e-6)
    assert solid.y[-1] == pytest.approx(1 / 6, abs=1e-6)  # nothing breaks the last one
    assert "the first 3 of 6 images" in curve.note
    assert dict(zip(curve.named, curve.marks, strict=True)) == pytest.approx({"JPEG 90": 0.1})
    assert solid.x[0] < 0.005
    nothing = robustness_curve(table([0.01], proved=[torch.nan]), L2(), "")
    assert nothing is not None
    assert nothing.note == ""
    assert "certified" in curve.how_to_read
    assert "certified" not in nothing.how_to_read
    assert "atched" not in nothing.how_to_read
    assert len(nothing.lines) == 1


def test_a_proof_of_next_to_nothing_does_not_stretch_the_axis() -> None:
    curve = robustness_curve(table([0.1, 0.2], proved=[1e-9, 1e-9]), L2(), "")
    assert curve is not None
    assert curve.lines[0].x[-1] / curve.lines[0].x[0] == pytest.approx(1000)


def test_the_difference_says_where_one_holds_more() -> None:
    weak, strong = table([0.01] * 20 + [0.3] * 20), table([0.1] * 20 + [0.3] * 20)
    chart = curve_difference((strong, weak), ("A", "B"), Linf())
    assert chart is not None
    assert chart.summary == chart.note
    assert chart.title == "A minus B"
    assert chart.summary.startswith(
        "A holds more images than B after changes of 2.6/255 to 25/255 (by 50 % of the images"
    )
    turned = curve_difference((weak, strong), ("B", "A"), Linf())
    assert turned is not None
    assert turned.summary == chart.summary
    same = curve_difference((weak, weak), ("A", "B"), Linf())
    assert same is not None
    assert same.summary.startswith(
        "Over the whole curve these images do not separate A and B: "
        "where they differ most, after a change of 1.6/255, A holds 0 % more of the images [−7 %, 7 %]"
    )
    # Never a negative difference: it is told of whoever holds more
    first, second = table([0.01] * 9 + [0.3] * 11), table([0.01] * 8 + [0.3] * 12)
    for pair, names in (((first, second), ("A", "B")), ((second, first), ("B", "A"))):
        chart = curve_difference(pair, names, Linf())
        assert chart is not None
        assert ", B holds 5 % more of the images [−" in chart.summary


@pytest.mark.parametrize(("low", "said"), [(-0.003, "−0.3 %"), (0.0, "0 %"), (-0.0, "0 %"), (-0.07, "−7 %")])
def test_only_zero_looks_like_zero(low: float, said: str) -> None:
    at, value = torch.tensor([0.01]), torch.tensor([0.1], dtype=torch.float64)
    gap = SurvivalDifference(at, value, torch.tensor([low], dtype=torch.float64), value + 0.2)
    assert f"of the images [{said}, 30 %]" in difference_in_words(gap, ("A", "B"), Linf())


def test_only_equal_populations_are_compared() -> None:
    measure, many = BreakingRadius(), table([0.1, 0.2], population=200)
    few = table([0.1, 0.2])
    with pytest.raises(Mismatch, match="2 of 200"):
        measure.contrast((few, many), ("a", "b"))
    with pytest.raises(Mismatch, match="1 of 100"):
        measure.contrast((few, table([0.1])), ("a", "b"))


def shard_of(images: Tensor, rows: slice = slice(None)) -> Shard:
    rng = Rng(0, ids=tuple(map(str, range(len(images))[rows])))
    return Shard(Encoder(nn.Flatten(), mean=0, std=1), images[rows], torch.arange(len(images))[rows], rng, None)


def test_everyday_changes_have_the_sizes_of_what_they_are() -> None:
    grey = torch.full((3, 3, 32, 32), 0.5)
    linf, l2 = (EverydayChanges(ball).run(shard_of(grey)) for ball in (Linf(), L2()))
    pixels = 3 * 32 * 32
    assert (linf["jpeg"] <= 1 / 255).all()  # nothing is lost of an even image
    torch.testing.assert_close(l2["noise"], torch.full((3,), 2 / 255 * pixels**0.5).double(), rtol=0.05, atol=0)
    assert (linf["noise"] > 3 * 2 / 255).all()
    assert (linf["noise"] < 6 * 2 / 255).all()
    # what is just noticed: ΔE of 2.3, in ℓ2 of every pixel together
    amount = float(linf["visible"][0])
    noticed = lab(grey[:1, :, :1, :1] + amount) - lab(grey[:1, :, :1, :1])
    assert float(noticed.norm()) == pytest.approx(2.3, abs=0.01)
    assert 4 / 255 < amount < 7 / 255
    torch.testing.assert_close(l2["visible"], linf["visible"] * pixels**0.5)


def test_everyday_changes_do_not_depend_on_shards() -> None:
    images = torch.rand(4, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    whole = EverydayChanges(L2()).run(shard_of(images))
    parts = [EverydayChanges(L2()).run(shard_of(images, rows)) for rows in (slice(0, 1), slice(1, 4))]
    for name, sizes in whole.items():
        assert torch.equal(torch.cat([part[name] for part in parts]), sizes)
        assert (sizes > 0).all()


def test_images_that_are_no_pictures_have_no_jpeg() -> None:
    sizes = EverydayChanges().run(shard_of(torch.rand(2, 2, 8, 8)))
    assert sizes["jpeg"].isnan().all()
    assert sizes["visible"].isnan().all()
    assert sizes["noise"].isfinite().all()
    curve = robustness_curve(table([0.1, 0.2]) | sizes, L2(), "")
    assert curve is not None
    assert curve.named == ("sensor noise",)
    assert replace(EverydayChanges(Linf(0.3)), first=3).key() == EverydayChanges()


def test_lab_is_that_of_the_standard() -> None:
    """Values of the sRGB primaries as they are published, of D65."""
    colours = torch.eye(3).view(3, 3, 1, 1)
    expected = [[53.24, 80.09, 67.20], [87.73, -86.18, 83.18], [32.30, 79.19, -107.86]]
    torch.testing.assert_close(lab(colours).flatten(1), torch.tensor(expected), atol=0.06, rtol=0)
    greys = lab(torch.tensor([0.0, 1.0]).view(2, 1, 1, 1)).flatten(1)
    torch.testing.assert_close(greys, torch.tensor([[0.0, 0, 0], [100.0, 0, 0]]), atol=0.01, rtol=0)
