"""Rare events with closed forms: the probability, its interval, ends where there is nothing to find, and the passes."""

import math
from collections.abc import Callable

import pytest
import torch
from scipy import optimize, stats
from torch import Tensor

from holdfast.core import Rng
from holdfast.numerics.statistics import clopper_pearson
from holdfast.parts.estimators import splitting
from holdfast.parts.estimators.shared.climb import choose_parents
from holdfast.parts.estimators.splitting import Splitting
from holdfast.runtime.errors import BadValue, NotFinite

Value = Callable[[Tensor, Tensor], Tensor]


def names(count: int) -> Rng:
    return Rng(1, ids=tuple(map(str, range(count))))


def half_space(p: float, d: int) -> Value:
    way, reach = torch.randn(d, generator=torch.Generator().manual_seed(0)), -float(stats.norm.ppf(p))
    return lambda z, images: 7 * (z @ way / way.norm() - reach)


def two_half_spaces(p: float, d: int) -> Value:
    reach = -float(stats.norm.ppf(p / 2))
    return lambda z, images: z[:, 0].abs() - reach


def shell(p: float, d: int) -> Value:
    reach = math.sqrt(stats.chi2.isf(p, d))
    return lambda z, images: z.norm(dim=1) - reach


def ball(p: float, d: int) -> Value:
    """Failures in a small ball far from the centre."""
    away = 3.5
    reach = math.sqrt(optimize.brentq(lambda r2: stats.ncx2.cdf(r2, d, away**2) - p, 1e-12, 1e6))
    centre = torch.eye(d)[0] * away
    return lambda z, images: reach - (z - centre).norm(dim=1)


def stairs(p: float, d: int) -> Value:
    """Jumps and ties: the last step is the half-space's."""
    reach = -float(stats.norm.ppf(p))
    return lambda z, images: ((z[:, 0] - reach) * 2).ceil() - 0.5


PROBLEMS = [half_space, two_half_spaces, shell, ball, stairs]


def check(problem, p: float, d: int, images: int, covers: float, estimator: Splitting) -> None:
    found = estimator.estimate(problem(p, d), d, names(images))
    ratio = found["probability"] / p
    error = float(ratio.std()) / images**0.5
    assert abs(float(ratio.mean()) - 1) < 4 * error + 0.03  # 3 %: what following the moves may cost
    covered = (found["low"] <= p) & (p <= found["high"])
    assert float(covered.double().mean()) >= covers
    assert (found["low"] > 0).all()
    assert (found["high"] < 1).all()
    claimed = found["relative_variance"].mean().item()
    assert 0.4 < claimed / float((ratio - 1).square().mean()) < 2.5


@pytest.mark.sweep(3)
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize(("p", "d"), [(1e-3, 2), pytest.param(1e-5, 20, marks=pytest.mark.slow)])
def test_reaches_the_closed_form(problem, p: float, d: int) -> None:
    check(problem, p, d, 100, 0.87, Splitting())


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize(("p", "d"), [(1e-2, 2), (1e-4, 20), (1e-6, 5), (1e-9, 2)])
def test_intervals_cover_as_often_as_they_say(problem, p: float, d: int) -> None:
    check(problem, p, d, 300, 0.9, Splitting())


@pytest.mark.slow
def test_many_numbers_change_nothing() -> None:
    check(half_space, 1e-5, 3072, 40, 0.85, Splitting())


@pytest.mark.slow
@pytest.mark.parametrize("problem", [half_space, two_half_spaces, shell])
def test_takes_a_hundredth_of_the_passes_of_plain_draws(problem) -> None:
    p = 1e-5
    found = Splitting(200, kill=0.3, moves=3).estimate(problem(p, 2), 2, names(600))
    variance = float((found["probability"] / p - 1).square().mean())
    assert (1 - p) / p / variance > 100 * float(found["passes"].mean())


def test_all_draws_above_a_level_are_copied_equally_often() -> None:
    generator = torch.Generator().manual_seed(0)
    gone = torch.tensor([5, 8, 3, 9])  # of 10: each of 5 once, of 2 four times, of 7 three in 7 times, of 1 always
    counts = [torch.zeros(10 - k) for k in gone.tolist()]
    for _ in range(3000):
        ranks = choose_parents(gone, 10, torch.rand(25, generator=generator)).split(gone.tolist())
        for count, rank in zip(counts, ranks, strict=True):
            times = rank.bincount(minlength=len(count))
            assert times.max() - times.min() <= 2
            count += times
    for k, count in zip(gone.tolist(), counts, strict=True):
        share = k / (10 - k)
        torch.testing.assert_close(count / 3000, torch.full_like(count, share), rtol=0, atol=4 * (share / 3000) ** 0.5)
    assert counts[0].tolist() == [3000] * 5
    assert counts[1].tolist() == [12000] * 2


def test_plain_draws_where_failures_are_common() -> None:
    found = Splitting().estimate(lambda z, images: z[:, 0] + 1, 3, names(20))  # 84 %
    assert (found["levels"] == 0).all()
    assert (found["passes"] == 600).all()
    assert abs(float(found["probability"].mean()) - stats.norm.cdf(1)) < 0.02
    k = round(float(found["probability"][3]) * 600)
    assert (float(found["low"][3]), float(found["high"][3])) == clopper_pearson(k, 600)


def test_certain_and_impossible_events() -> None:
    values = torch.tensor([1.0, -1.0, 0.0])  # 0 is no failure
    found = Splitting().estimate(lambda z, images: values[images], 3, names(3))
    assert found["probability"].tolist() == [1, 0, 0]
    for image, failed in enumerate((600, 0, 0)):
        ends = float(found["low"][image]), float(found["high"][image])
        assert ends == pytest.approx(clopper_pearson(failed, 600))
    assert (found["passes"] == 600).all()


def test_plateaus_below_failure_end_without_one() -> None:
    """Values rise to a plateau that one draw in a hundred reaches, and no draw gets further."""
    found = Splitting().estimate(lambda z, images: (z[:, 0] - 2.326).clamp_max(0) - 1, 3, names(10))
    assert (found["probability"] == 0).all()
    assert (found["low"] == 0).all()
    assert (found["high"] > 0).all()
    assert (found["high"] < 1e-3).all()


def test_a_rare_event_without_any_slope_is_counted() -> None:
    p = 0.004
    reach = -stats.norm.ppf(p)
    found = Splitting().estimate(lambda z, images: (z[:, 0] > reach).float() - 0.5, 2, names(300))
    assert abs(float(found["probability"].mean()) / p - 1) < 4 / (300 * 600 * p) ** 0.5
    assert (found["high"] >= p).double().mean() > 0.9
    assert (found["low"] <= p).double().mean() > 0.9
    assert (found["passes"] <= 600 * 5).all()


def test_gives_up_below_the_least_probability() -> None:
    found = Splitting(least=1e-6).estimate(half_space(1e-30, 2), 2, names(5))
    assert (found["probability"] == 0).all()
    assert (found["low"] == 0).all()
    assert (found["high"] < 1e-5).all()
    assert (found["high"] > 1e-8).all()
    deeper = Splitting(least=1e-12).estimate(half_space(1e-9, 2), 2, names(5))
    assert (deeper["probability"] > 0).all()


def test_images_do_not_depend_on_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    reaches = torch.tensor([3.0, 1.0, 4.5, -1.0, 0.5])

    def value(which: list[int]) -> Value:
        return lambda z, images: z[:, 0] - reaches[which][images]

    rng = names(5)
    whole = Splitting().estimate(value([0, 1, 2, 3, 4]), 4, rng)
    some = Splitting().estimate(value([2, 0, 4]), 4, rng.at(["2", "0", "4"]))
    monkeypatch.setattr(splitting, "ROOM", 600 * 4 * 2)  # two images at a time
    blocks = Splitting().estimate(value([0, 1, 2, 3, 4]), 4, rng)
    for key, values in whole.items():
        assert torch.equal(values[[2, 0, 4]].nan_to_num(-1), some[key].nan_to_num(-1)), key
        assert torch.equal(values.nan_to_num(-1), blocks[key].nan_to_num(-1)), key
    other = Splitting().estimate(value([0, 1, 2, 3, 4]), 4, Rng(2, ids=rng.ids))
    assert not torch.equal(other["probability"], whole["probability"])


def test_passes_are_the_values_computed() -> None:
    counts, inner = torch.zeros(3), half_space(1e-4, 5)

    def value(z: Tensor, images: Tensor) -> Tensor:
        counts.index_add_(0, images, torch.ones(len(images)))
        assert (images.diff() >= 0).all()  # draws of an image are neighbours
        return inner(z, images) + images

    assert torch.equal(Splitting().estimate(value, 5, names(3))["passes"], counts.double())


def test_no_images_no_answers() -> None:
    assert Splitting().estimate(half_space(0.1, 2), 2, names(0))["probability"].shape == (0,)


def test_values_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(NotFinite, match="NaN"):
        Splitting().estimate(lambda z, images: z[:, 0].log(), 2, names(2))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        *[(wrong, "splitting: expected particles >= 2, runs >= 2, kill and least in")
          for wrong in ({"particles": 1}, {"kill": 0.0}, {"kill": 1.0}, {"runs": 1}, {"least": 0.0})],
        ({"moves": 0}, "splitting.moves: expected a whole number above 0, got 0"),
        ({"least": float("nan")}, "splitting.least: expected a finite number, got nan"),
    ],
)  # fmt: skip
def test_impossible_parameters_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(BadValue, match=f"^{message}"):
        Splitting(**wrong)


def test_values_of_either_precision_will_do() -> None:
    inner = half_space(1e-4, 3)
    single = Splitting().estimate(inner, 3, names(4))
    double = Splitting().estimate(lambda z, images: inner(z, images).double(), 3, names(4))
    torch.testing.assert_close(double["probability"], single["probability"])
