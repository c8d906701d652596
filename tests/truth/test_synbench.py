"""The SynBench score: check sums, planted scores, and intervals that hold what they promise."""

import math
from dataclasses import replace

import pytest
import torch
from test_linear_probe import Labelled
from torch import Tensor

from holdfast.numerics import statistics
from holdfast.numerics.gaussian_classes.synbench import (
    OVER,
    TradeOff,
    area,
    best,
    curve,
    influence,
    reference,
    score,
    thresholds,
)
from holdfast.parts.measures.synbench.synbench import Synbench
from holdfast.parts.observations.mixtures import Mixtures
from holdfast.runtime.errors import BadValue, UnknownName

S = torch.arange(1, 50, dtype=torch.float64) / 10


def trade_off(accuracy: Tensor, bound: Tensor, s: Tensor = S, samples: int = 2048) -> TradeOff:
    """Classifiers of one direction, [S, 2] or the same of both halves, [S]."""
    accuracy, bound = (x[:, None].expand(-1, 2) if x.dim() == 1 else x for x in (accuracy, bound))
    return TradeOff(s, accuracy[None], bound[None], *(x[None] for x in reference(s)), samples)


def simulated(dim: int, n: int, runs: int, seed: int = 0, strength: float = 1.0, s: Tensor = S, seen=None):
    """Accuracy and bound, each [runs, S, 2], of classifiers of N(±s e₁, I), of each way to see it: matrices [D, D'].

    Fisher's discriminant, fitted to one half and tested on the other; a strength below 1 brings the classes together.
    """
    random = torch.Generator().manual_seed(seed)
    seen = [torch.eye(dim)] if seen is None else seen
    found: list[list[tuple[Tensor, Tensor]]] = [[] for _ in seen]
    for _ in range(runs):
        signs = torch.randint(0, 2, (2, len(s), n), generator=random).double() * 2 - 1
        x = torch.randn(2, len(s), n, dim, generator=random).double()
        x[..., 0] += signs * strength * s[:, None]
        for matrix, results in zip(seen, found, strict=True):
            z = x @ matrix.double()
            plus = (signs > 0).double()[..., None]
            means = [(z * w).sum(-2) / w.sum(-2) for w in (plus, 1 - plus)]
            centre, half = (means[0] + means[1]) / 2, (means[0] - means[1]) / 2
            rest = z - centre[..., None, :] - signs[..., None] * half[..., None, :]
            weights = torch.linalg.solve(rest.mT @ rest / (n - 2), half)
            values = signs.flip(0) * ((z.flip(0) - centre[..., None, :]) @ weights[..., None]).squeeze(-1)
            values, right = values / (half * weights).sum(-1)[..., None], values > 0
            bound = (values * right).sum(-1) / right.sum(-1).clamp_min(1)
            results.append((right.double().mean(-1).T, bound.T))
    return [tuple(torch.stack(part) for part in zip(*results, strict=True)) for results in found]


# --- points, areas, references ---------------------------------------------------------------------


def test_check_sums_of_the_reference() -> None:
    accuracy, bound = reference(torch.tensor([0.1, 1.0]))
    assert bound.tolist() == pytest.approx([8.3533, 1.28760], abs=5e-5)
    assert accuracy.tolist() == pytest.approx([0.539828, 0.841345], abs=1e-6)
    sums = [float(area(*reference(S), start).mean()) for start in (0.6, 0.7, 0.8, 0.9)]
    assert sums == pytest.approx([85.8304, 59.6211, 36.4201, 15.9132], abs=5e-5)


def test_thresholds_have_one_spacing() -> None:
    torch.testing.assert_close(thresholds(0.6), torch.linspace(0.6, 1, 100, dtype=torch.float64))
    assert len(thresholds(0.5)) == 124
    assert float(thresholds(0.5)[0]) == pytest.approx(1 - 123 * 0.4 / 99)
    torch.testing.assert_close(thresholds(0.5).diff(), torch.full((123,), 0.4 / 99, dtype=torch.float64))
    for start in (0.49, 1.0, math.nan):
        with pytest.raises(BadValue, match="a_t"):
            thresholds(start)


def test_area_counts_the_thresholds_that_are_passed() -> None:
    accuracy = torch.tensor([0.85, 0.6, 0.601, 1.0, 0.3], dtype=torch.float64)
    bound = torch.tensor([2.0, 3.0, 5.0, 1.5, 9.0])
    passed = [sum(a > k for k in [1 - j * 0.4 / 99 for j in range(99)] + [0.6]) for a in accuracy.tolist()]
    assert passed[1:3] == [0, 1]  # a tie is not above
    assert area(accuracy, bound, 0.6).tolist() == [2 * passed[0], 0, 5, 1.5 * 99, 0]


def test_areas_are_sums_of_the_curve() -> None:
    accuracy, bound = reference(S)
    for start in (0.5, 0.6, 0.85):
        under = curve(accuracy, bound, thresholds(start))
        assert float(under.sum()) == pytest.approx(float(area(accuracy, bound, start).mean()))
        assert (under.diff() <= 0).all()


# --- the score -------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("start", [0.5, 0.6, 0.9])
def test_the_images_themselves_score_one(start, over) -> None:
    found = score(trade_off(*reference(S)), start, over)
    assert found.value == pytest.approx(1, abs=1e-12)
    assert found.low < 1 < found.high  # no two halves differ: exact limits
    assert found.n == 49


def test_halves_and_rows_that_are_lost_count_by_hand() -> None:
    s = torch.tensor([0.5, 1.0, 2.0])
    ideal = area(*reference(s), 0.6)
    accuracy, bound = reference(s)
    accuracy = torch.stack([accuracy, torch.tensor([0.9, 0.55, 0.7]).double()], 1)  # one half is right as can be
    bound = torch.stack([bound, torch.tensor([2.0, 4.0, 3.0]).double()], 1)
    other = torch.tensor([2 * 75.0, 0.0, 3 * 25.0])  # .9 = .6 + 74.25 steps, .7 = .6 + 24.75 steps
    expected = float((ideal + other).sum() / 2 / ideal.sum())
    assert score(trade_off(accuracy, bound, s), 0.6).value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("over", OVER)
def test_a_lost_direction_scores_zero_with_a_width(over) -> None:
    lost = trade_off(torch.full((49,), 0.5), torch.full((49,), 2.0), samples=64)
    found = score(lost, 0.6, over)
    tail = 0.025 / 98
    highest = statistics.clopper_pearson(32, 64, 1 - 2 * tail)[1]
    expected = 49 * float(area(torch.tensor(highest), torch.tensor(2.0), 0.6)) / float(area(*reference(S), 0.6).sum())
    assert (found.value, found.low) == (0, 0)
    assert found.high == pytest.approx(expected)
    assert found.high > 0.1
    sure = score(replace(lost, samples=2048), 0.6, over)
    assert (sure.value, sure.low, sure.high) == (0, None, None)
    assert "below a_t" in sure.note


def test_no_score_where_the_images_allow_nothing() -> None:
    weak = torch.tensor([0.1, 0.2, 0.3])
    seen = trade_off(*reference(weak), weak)
    found = score(seen, 0.7)
    assert (found.value, found.low, found.high) == (None, None, None)
    assert "allow no area" in found.note
    assert influence(seen, 0.7).tolist() == [0, 0, 0]
    assert best([(0.0, seen)], 0.7).value is None


def test_a_more_accurate_classifier_never_scores_less() -> None:
    [(accuracy, bound)] = simulated(5, 64, 1, s=S[::4])
    values = [score(trade_off((accuracy[0] + up).clamp(max=1), bound[0], S[::4]), 0.6).value for up in (-0.1, 0, 0.1)]
    assert values == sorted(values)
    assert values[0] < values[2]


def test_two_rows_and_one_row_have_intervals() -> None:
    for count in (1, 2):
        s = torch.tensor([1.0, 2.0])[:count]
        accuracy = torch.tensor([[0.8, 0.82], [0.95, 0.93]])[:count]
        for over in OVER:
            found = score(trade_off(accuracy, torch.full((count, 2), 1.2), s, 100), 0.6, over)
            assert 0 <= found.low < found.value < found.high


def test_no_interval_goes_beyond_the_exact_limits() -> None:
    for accuracy in ([0.75, 0.62], [0.95, 0.6]):
        seen = trade_off(torch.tensor([accuracy]), torch.full((1, 2), 1.2), torch.tensor([1.0]), 40)
        found, (least, most) = score(seen, 0.6, "samples"), seen.limits(0.6, 0.95)
        assert (found.low, found.high) == (least, most)  # one degree of freedom says next to nothing
        assert 0 <= least < found.value < most


# --- intervals -------------------------------------------------------------------------------------

TRUE = 0.95


def covered(runs: tuple[Tensor, Tensor], samples: int, start: float, over: str, s: Tensor = S) -> float:
    """The share of intervals that contain the mean of all scores; a score of 0 may have none, and says why."""
    found = [score(trade_off(a, b, s, samples), start, over) for a, b in zip(*runs, strict=True)]
    truth = sum(one.value for one in found) / len(found)
    told = [one for one in found if one.low is not None]
    assert all(one.value == 0 and "below a_t" in one.note for one in found if one.low is None)
    return sum(one.low <= truth <= one.high for one in told) / len(told) if told else 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dim", "strength", "start"),
    [(20, 0.12, 0.7), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((5, 1.0, 0.6), (20, 0.12, 0.5)))],
)
def test_intervals_contain_the_expected_score(dim, strength, start) -> None:
    runs, n = 150, 64
    [seen] = simulated(dim, n, runs, seed=3, strength=strength)
    error = 3 * math.sqrt(TRUE * (1 - TRUE) / runs)
    for over in OVER:
        assert covered(seen, n, start, over) >= TRUE - error


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "n", "runs"), [(5, 1024, 200), (20, 64, 300), (20, 256, 200), (100, 256, 150)])
@pytest.mark.parametrize("strength", [1.0, 0.25, 0.12])
def test_intervals_contain_the_expected_score_for_many_encoders(dim, n, runs, strength) -> None:
    [seen] = simulated(dim, n, runs, seed=dim + n, strength=strength)
    error = 3 * math.sqrt(TRUE * (1 - TRUE) / runs)
    for start in (0.5, 0.6, 0.7, 0.9):
        for step in (1, 5):
            part = tuple(x[:, ::step] for x in seen)
            for over in OVER:
                assert covered(part, n, start, over, S[::step]) >= TRUE - error, (start, step, over)


def test_other_separations_are_allowed_for() -> None:
    [seen] = simulated(5, 64, 150, seed=4)
    truth = float(area(*seen, 0.6).mean((0, 2)).sum() / area(*reference(S), 0.6).sum())
    random, inside = torch.Generator().manual_seed(0), 0
    for accuracy, bound in zip(*seen, strict=True):
        drawn = torch.randint(0, 49, (49,), generator=random).sort().values
        ideal = (x[None, drawn] for x in reference(S))
        found = score(TradeOff(S, accuracy[None, drawn], bound[None, drawn], *ideal, 64), 0.6)
        inside += found.low <= truth <= found.high
    assert inside / 150 >= TRUE - 3 * math.sqrt(TRUE * (1 - TRUE) / 150)


def test_the_interval_over_s_contains_that_over_samples() -> None:
    [(accuracy, bound)] = simulated(10, 64, 5)
    for a, b in zip(accuracy, bound, strict=True):
        inner, outer = (score(trade_off(a, b, samples=64), 0.6, over) for over in reversed(OVER))
        assert outer.low <= inner.low < inner.value < inner.high <= outer.high


@pytest.mark.sweep(2)
@pytest.mark.parametrize("over", OVER)
def test_influences_tell_what_a_pair_of_encoders_shares(over) -> None:
    """Two encoders of the same images: the difference's interval, recovered with their correlation, keeps its level."""
    runs, n, s = 100, 128, S[::2]
    both = simulated(6, n, runs, seed=5, s=s, seen=[torch.eye(6), torch.eye(6)[:, :5]])
    seen = [[trade_off(a, b, s, n) for a, b in zip(*one, strict=True)] for one in both]
    scores = [[score(one, 0.6, over) for one in each] for each in seen]
    parts = [[influence(one, 0.6, over) for one in each] for each in seen]
    shared = [statistics.correlation(a, b) for a, b in zip(*parts, strict=True)]
    gaps = [statistics.difference(a, b, r) for a, b, r in zip(*scores, shared, strict=True)]
    truth = sum(gap.value for gap in gaps) / runs
    assert sum(gap.low <= truth <= gap.high for gap in gaps) / runs >= TRUE - 3 * math.sqrt(TRUE * (1 - TRUE) / runs)
    alone = [statistics.difference(a, b, 0.0) for a, b in zip(*scores, strict=True)]
    paired, unpaired = (sum(gap.high - gap.low for gap in each) for each in (gaps, alone))
    assert paired < 0.65 * unpaired


def test_influences_have_the_size_of_the_interval() -> None:
    [(accuracy, bound)] = simulated(10, 256, 1, seed=6)
    seen = trade_off(accuracy[0], bound[0], samples=256)
    found = {over: score(seen, 0.6, over) for over in OVER}
    widths = {over: min(one.high - one.value, one.value - one.low) for over, one in found.items()}  # without skew
    parts = {over: influence(seen, 0.6, over) for over in OVER}
    assert 1.9 <= widths["samples"] / float(parts["samples"].norm()) <= 2.2 * math.sqrt(3)
    assert float(parts["samples and s"].sum()) == pytest.approx(0, abs=1e-12)
    assert 2 <= widths["samples and s"] / float(parts["samples and s"].norm()) <= 3


# --- the best ε ------------------------------------------------------------------------------------


def planted(scores: list[float], noise: float, seed: int = 0) -> list[tuple[float, TradeOff]]:
    """Trade-offs of ε = 0, .1, ... with these expected scores; their bounds are noisy, in every row and half anew."""
    random = torch.Generator().manual_seed(seed)
    accuracy, bound = reference(S)
    noisy = [bound[:, None] * (x + noise * torch.randn(49, 2, generator=random)) for x in scores]
    return [(k / 10, trade_off(accuracy, one)) for k, one in enumerate(noisy)]


@pytest.mark.parametrize("over", OVER)
def test_the_best_budget_and_what_may_be_it(over) -> None:
    found = best(planted([0.5, 0.8, 0.795, 0.4], 0.1), 0.6, over)
    assert found.value in (0.1, 0.2)
    assert (found.low, found.high) == (0.1, 0.2)
    assert "Bonferroni over 3 others" in found.interval
    clear = best(planted([0.5, 0.8, 0.7, 0.4], 0.01), 0.6, over)
    assert (clear.value, clear.low, clear.high) == (0.1, None, None)
    assert "every other" in clear.note


@pytest.mark.parametrize("over", OVER)
def test_halves_that_differ_more_than_budgets_rule_out_none(over) -> None:
    accuracy, bound = reference(S)
    sign = torch.tensor([1.0, -1.0])
    first, second = (
        trade_off(accuracy, bound[:, None] * (mean + 0.5 * sign * way)) for mean, way in ((0.8, 1), (0.79, -1))
    )
    found = best([(0.0, second), (0.1, first)], 0.6, over)
    assert (found.value, found.low, found.high) == (0.1, 0.0, 0.1)  # although each row says the same


def test_equal_budgets_give_the_smallest() -> None:
    same = trade_off(*reference(S))
    found = best([(0.0, same), (0.1, same), (0.2, same)], 0.6)
    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.2)


def test_no_best_budget_without_a_score() -> None:
    lost = trade_off(torch.full((49,), 0.5), torch.full((49,), 2.0))
    found = best([(0.0, lost), (0.1, lost)], 0.6)
    assert (found.value, found.low, found.high) == (None, None, None)
    assert "all scores are 0" in found.note


@pytest.mark.parametrize("over", OVER)
@pytest.mark.slow
def test_the_truly_best_budget_is_rarely_ruled_out(over) -> None:
    runs = 120
    found = [best(planted([0.7] * 4, 0.1, seed), 0.6, over) for seed in range(runs)]
    least = [one.value if one.low is None else one.low for one in found]  # the only one that is left has no interval
    assert sum(epsilon > 0 for epsilon in least) / runs <= 0.05 + 3 * math.sqrt(TRUE * (1 - TRUE) / runs)
    assert len({one.value for one in found}) == 4


# --- the measure -----------------------------------------------------------------------------------

FEW = Mixtures(epsilons=(0.0, 0.25), samples=128, separations=(0.5, 1.0, 2.0), directions=2)


class Drawn(Labelled):
    """A subject that has seen some synthetic images."""

    def __init__(self, seen: dict[str, Tensor]):
        super().__init__(torch.zeros(1, 1), None, 0)
        self.seen = seen

    def read(self, observation: Mixtures) -> dict[str, Tensor]:
        assert observation == FEW
        return self.seen


def drawn() -> Drawn:
    random = torch.Generator().manual_seed(0)
    s = torch.tensor(FEW.separations).repeat(2)
    ideal = [x[:, None].expand(-1, 2) for x in reference(s)]
    right = torch.randint(64, 129, (6, 2, 2), generator=random)
    return Drawn(
        {
            "s": s.double(),
            "direction": torch.arange(2).repeat_interleave(3),
            "right": right,
            "accuracy": right.double() / 128,
            "bound": 1 + torch.rand(6, 2, 2, generator=random).double() * torch.tensor([0.1, 2.0]),  # more for ε .25
            "reference_accuracy": ideal[0],
            "reference_bound": ideal[1],
        }
    )


def test_measure_tells_rows_and_scores() -> None:
    subject, measure = drawn(), Synbench(FEW)
    table = measure.observe(subject)
    names = measure.rows(table)
    assert len(names) == 12 == len(set(names))
    assert names[:2] + names[-1:] == [
        "direction 1, s 0.5, half 1",
        "direction 1, s 0.5, half 2",
        "direction 2, s 2, half 2",
    ]
    assert all(len(column) == 12 for column in table.values())
    assert float(table["accuracy@0.25"][7]) == float(subject.seen["accuracy"][3, 1, 1])
    assert float(table["reference bound@0"][7]) == float(subject.seen["reference_bound"][3, 0])
    scores = measure.score(table)
    assert list(scores) == [
        *("a_t 0.6, ε 0", "a_t 0.6, ε 0.25", "a_t 0.7, ε 0.25", "a_t 0.8, ε 0", "a_t 0.8, ε 0.25"),
        *("a_t 0.9, ε 0", "a_t 0.9, ε 0.25", "best ε", "a_t 0.7, ε 0"),
    ]
    assert float(table[measure.column].mean()) == pytest.approx(scores["a_t 0.7, ε 0"].value)
    for epsilon, number in (("0", 0), ("0.25", 1)):
        own = area(subject.seen["accuracy"][..., number], subject.seen["bound"][..., number], 0.8).sum() / 2
        ideal = area(subject.seen["reference_accuracy"][:, 0], subject.seen["reference_bound"][:, 0], 0.8).sum()
        assert scores[f"a_t 0.8, ε {epsilon}"].value == pytest.approx(float(own / ideal))
    assert scores["a_t 0.7, ε 0.25"].value > scores["a_t 0.7, ε 0"].value
    assert scores["best ε"].value == 0.25
    assert len(measure.influence(table)) == 6


def test_one_direction_needs_no_name() -> None:
    measure = Synbench(replace(FEW, directions=1))
    table = {"s": torch.tensor([0.5, 0.5]), "direction": torch.tensor([0, 0]), "half": torch.tensor([0, 1])}
    assert measure.rows(table) == ["s 0.5, half 1", "s 0.5, half 2"]


def test_a_headline_of_its_own_is_last() -> None:
    measure = replace(Synbench(FEW), starts=(0.6,), start=0.65)
    assert list(measure.score(measure.observe(drawn()))) == [
        "a_t 0.6, ε 0",
        "a_t 0.6, ε 0.25",
        "a_t 0.65, ε 0.25",
        "best ε",
        "a_t 0.65, ε 0",
    ]


def test_bad_fields_are_refused() -> None:
    for fields, kind, words in (
        ({"starts": (0.4,)}, BadValue, "starts"),
        ({"start": 1.0}, BadValue, "starts"),
        ({"start": math.nan}, BadValue, r"synbench\.start"),
        ({"starts": (0.6, 0.6)}, BadValue, "digits"),
        ({"over": "s"}, UnknownName, "s"),
        ({"mixtures": Mixtures(epsilons=(0.1, 0.1000000001))}, BadValue, "digits"),
    ):
        with pytest.raises(kind, match=words):
            Synbench(**fields)
