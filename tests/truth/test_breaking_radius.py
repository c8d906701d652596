"""Breaking radii: against exact ones, from both sides, where gradients mislead, and in words."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from holdfast.core import Ball, Encoder, Failure, Rng, Shard
from holdfast.numerics.statistics.survival import survival
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.shared.smallest import Smallest
from holdfast.parts.attacks.shared.tournament import Sought, rounds, tournament
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.radius import certify_radii
from holdfast.parts.checks.smaller_change import SmallerChange
from holdfast.parts.failures.confused import Confused
from holdfast.parts.failures.drifted import Drifted
from holdfast.parts.failures.misclassified import Misclassified
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.measures.neighbours.breaking_radius import BreakingRadius
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.observations.nearest_image import NearestImage
from holdfast.parts.observations.proved_radii import ProvedRadii
from holdfast.parts.observations.smaller_changes import SmallerChanges
from holdfast.parts.observations.thumbnails import Thumbnails
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.report.numbers import format_score
from holdfast.runtime.errors import BadValue, Unsupported

N = 12


def population(low: float = 0.4, high: float = 0.6) -> Tensor:
    """Return images without much contrast, so that no smallest change ends on the box."""
    return low + (high - low) * torch.rand(N, 1, 6, 6, generator=torch.Generator().manual_seed(0))


def shard(encoder: Encoder, images: Tensor, rows: Tensor | None = None) -> Shard:
    rows = torch.arange(len(images)) if rows is None else rows
    rng = Rng(0, ids=tuple(str(int(row)) for row in rows))
    with torch.no_grad():
        clean = encoder(images)
    return Shard(encoder, images[rows], rows, rng, clean, others=lambda positions: images[positions])


def exact(images: Tensor, ball: Ball) -> Tensor:
    """Return the distances from each image to the nearest bisecting plane, for an encoder that is the identity."""
    apart = (images[:, None] - images[None]).flatten(2).double()
    dual = apart.norm(dim=2) if isinstance(ball, L2) else apart.abs().sum(2)
    distance = apart.square().sum(2) / 2 / dual
    return distance.fill_diagonal_(torch.inf).amin(1)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 24), nn.ReLU(), nn.Linear(24, 8)).eval()


@pytest.mark.sweep(2)
@pytest.mark.parametrize("ball", [Linf(), L2()])
def test_both_sides_meet_at_the_exact_radius_of_a_linear_encoder(ball: Ball) -> None:
    images = population()
    identity = shard(Encoder(nn.Flatten(), mean=0, std=1), images)
    truth = exact(images, ball)
    broken = BreakingRadii(ball, steps=60).run(identity)
    proved = ProvedRadii(ball=ball, tolerance=1e-5).run(identity)["radius"]
    torch.testing.assert_close(broken["radius"], truth, rtol=0.03, atol=0)
    assert (broken["radius"] >= truth * (1 - 1e-6)).all()
    assert (proved <= truth * (1 + 1e-9)).all()
    torch.testing.assert_close(proved, truth, rtol=1e-3, atol=1e-5)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("ball", [Linf(), L2()])
def test_radii_are_those_of_broken_images_and_more_than_is_proved(ball: Ball) -> None:
    encoder, images = Encoder(network(), mean=0, std=1), population(0, 1)
    seen = shard(encoder, images)
    broken = BreakingRadii(ball, steps=40).run(seen)
    value = Nearest().bind(seen)(broken["reps"][:, None].double(), torch.arange(N)).squeeze(1)
    assert (value > 0).all()
    assert (broken["halfway"] >= broken["radius"]).all()
    assert (broken["halfway"] > broken["radius"]).any()
    proved = ProvedRadii(ball=ball).run(seen)["radius"]
    assert (proved > 0).any()
    assert (proved <= broken["radius"]).all()


def test_more_passes_find_smaller_changes_and_cost_what_is_said() -> None:
    radii = []
    for steps in (10, 100):
        encoder = Encoder(network(), mean=0, std=1)
        seen = shard(encoder, population(0, 1))
        before = encoder.passes
        observation = BreakingRadii(L2(), steps=steps)
        radii.append(observation.run(seen)["radius"])
        spent, expected = encoder.passes - before, observation.passes * N
        assert spent.backward <= expected.backward
        assert spent.forward <= expected.forward
        assert abs((spent.forward + spent.backward) / 2 / N - steps) <= 0.1 * steps
    assert radii[1].median() < radii[0].median()
    assert (radii[1] <= radii[0] * 1.05).all()


def test_images_do_not_depend_on_each_other() -> None:
    encoder, images = Encoder(network().double(), mean=0, std=1), population(0, 1).double()
    whole = BreakingRadii(L2(), steps=40).run(shard(encoder, images))["radius"]
    parts = [
        BreakingRadii(L2(), steps=40).run(shard(encoder, images, torch.arange(N)[part]))["radius"]
        for part in (slice(0, 5), slice(5, N))
    ]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=0.01, atol=0)  # a last halving may turn on rounding
    assert int(torch.isclose(torch.cat(parts), whole, rtol=1e-9, atol=0).sum()) >= N - 2


class Rounded(nn.Module):
    """An encoder that hides its gradient: pixels are rounded to sixteen levels."""

    def forward(self, x: Tensor) -> Tensor:
        """Return rounded pixels."""
        return (x * 15).round().flatten(1) / 15 + 0 * x.flatten(1)


def test_an_encoder_without_a_gradient_is_broken_on_the_way_to_another_image() -> None:
    images = population(0, 1)
    seen = shard(Encoder(Rounded(), mean=0, std=1), images)
    radius = BreakingRadii(L2(), steps=40).run(seen)["radius"]
    apart = torch.cdist(images.flatten(1), images.flatten(1)).fill_diagonal_(torch.inf).amin(1)
    assert radius.isfinite().all()
    assert (radius < apart).all()


def test_without_a_gradient_pixels_move_alike_towards_another_image() -> None:
    images = population(0, 1)
    encoder = Encoder(Rounded(), mean=0, std=1)
    seen = shard(encoder, images)
    radius = BreakingRadii(Linf(), steps=40).run(seen)["radius"]
    # how far the straight ways to other images must go
    share, straight = torch.linspace(0, 1, 101), torch.full((N,), torch.inf)
    event = Nearest().bind(seen)
    for other in range(1, N):
        way = images.roll(other, 0) - images
        for at in share.flip(0):
            broken = event(encoder(images + at * way)[:, None].double(), torch.arange(N)).squeeze(1) > 1e-4
            straight = torch.where(broken, torch.minimum(straight, Linf().size(at * way)), straight)
    assert (radius <= straight + 0.01).all()
    assert radius.median() < 0.8 * straight.median()
    assert (radius >= exact(images, Linf()) - 1 / 15).all()  # of the identity, less what rounding may hide


def test_failures_without_rivals_are_searched_by_restarts() -> None:
    encoder = Encoder(nn.Flatten(), mean=0, std=1)
    seen = shard(encoder, population())
    radius = BreakingRadii(L2(), Drifted(0.5), steps=40).run(seen)["radius"]
    assert seen.clean is not None
    apart = torch.pdist(seen.clean.double()).quantile(0.5)
    torch.testing.assert_close(radius, torch.full_like(radius, float(apart)), rtol=0.02, atol=0)
    with pytest.raises(Unsupported, match="proved_radii"):
        ProvedRadii(failure=Drifted()).run(seen)


def test_what_fails_as_it_is_need_not_move() -> None:
    images = population()
    seen = shard(Encoder(nn.Flatten(), mean=0, std=1), images)
    assert seen.clean is not None

    @dataclass(frozen=True)
    class Dark(Failure):
        """Darker than a little more than the third image."""

        title = "dark"  # pyright: ignore[reportIncompatibleMethodOverride]

        def bind(self, shard: Shard) -> Any:
            """Return the event."""
            return lambda reps, rows: images[2].mean() + 0.01 - reps.mean(2)

    radius = BreakingRadii(Linf(), Dark(), steps=40).run(seen)["radius"]
    dark = images.mean((1, 2, 3)) < images[2].mean() + 0.0099
    assert dark.any() and not dark.all()  # noqa: PT018
    assert (radius[dark] == 0).all()
    expected = (images.mean((1, 2, 3)) - images[2].mean() - 0.01)[~dark].double()
    torch.testing.assert_close(radius[~dark], expected, rtol=0.03, atol=2e-4)


@pytest.mark.parametrize("failure", [Nearest(), Nearest("cosine"), Confused(4)])
def test_an_image_fails_exactly_where_a_rival_has_a_negative_margin(failure: Failure) -> None:
    encoder = Encoder(network(), mean=0, std=1)
    seen = shard(encoder, torch.cat([population(0, 1), population(0, 1)[:1]]))  # the first image twice
    rivals = failure.rivals(seen)
    assert rivals is not None
    reps = torch.randn(len(seen.x), 50, 8, generator=torch.Generator().manual_seed(1)).double()
    event = failure.bind(seen)(reps, torch.arange(len(seen.x)))
    for draw in range(50):
        lowest = rivals.margins(reps[:, draw]).amin(1)
        assert torch.equal(lowest < 0, event[:, draw] > 0)
    assert seen.clean is not None
    assert (rivals.margins(seen.clean.double()) > 0).all()  # no image is its own rival, nor is its twin
    first = failure.rivals(seen, 2)
    assert first is not None
    assert torch.equal(first.margins.bias, rivals.margins.bias[:, :2])
    assert first.positions is not None
    assert (first.positions != seen.positions[:, None]).all()


@pytest.mark.sweep(2)
@pytest.mark.parametrize("ball", [Linf(), L2()])
def test_rows_certified_together_hold_up_to_the_smallest_of_their_radii(ball: Ball) -> None:
    encoder = Encoder(network(), mean=0, std=1)
    seen = shard(encoder, population(0, 1))
    rivals = Nearest().rivals(seen, 5)
    assert rivals is not None
    each = certify_radii(Crown(), encoder, rivals.margins, seen.x, ball, 1e-5)
    together = certify_radii(Crown(), encoder, rivals.margins, seen.x, ball, 1e-5, together=True)
    assert together.shape == (N, 1)
    torch.testing.assert_close(together[:, 0], each.amin(1), rtol=0, atol=3e-5)


def test_the_l2_ball_is_used_up_where_pixels_stop_at_the_box() -> None:
    x = torch.tensor([[[[0.0, 0.5, 0.5, 0.5]]], [[[0.5, 0.5, 0.5, 0.5]]]])
    delta = torch.tensor([[[[-3.0, 0.4, 0.0, 0.1]]], [[[0.01, 0.0, 0.0, 0.0]]]])
    moved = L2().inside(x, delta, torch.tensor([0.3, 0.3])) - x
    torch.testing.assert_close(moved[0].norm(), torch.tensor(0.3), rtol=1e-5, atol=0)
    torch.testing.assert_close(moved[0] / moved[0, 0, 0, 1], torch.tensor([[[0, 1, 0, 0.25]]]), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(moved[1], delta[1])


def test_rounds_spend_the_budget() -> None:
    for steps in (10, 37, 100, 300, 1000):
        planned = rounds(steps, most=steps)
        assert sum(part.searches * part.steps for part in planned) == steps
        assert all(part.steps >= 1 for part in planned)
        assert planned[-1].searches == 1


def test_the_nearest_broken_image_of_all_searches_is_returned() -> None:
    x, truth = torch.full((3, 1, 2, 2), 0.5), torch.tensor([0.1, 0.2, 0.3])

    def goal(at: Tensor) -> tuple[Tensor, Tensor]:
        return (at - x).flatten(1).amax(1) - truth, at.flatten(1)

    def breaks(reps: Tensor) -> Tensor:
        return (reps - x.flatten(1)).amax(1) > truth

    rng = Rng(0, ids=("a", "b", "c"))
    smallest, _ = tournament(Sought(goal, breaks), x, Linf(), 40, rng)
    assert isinstance(smallest, Smallest)
    torch.testing.assert_close(smallest.radius, truth, rtol=0.01, atol=0)


def test_nothing_nearer_was_met_than_is_returned() -> None:
    x = population(0, 1)
    nearest = torch.full((N,), torch.inf)

    def breaks(reps: Tensor) -> Tensor:
        size = (reps - x.flatten(1)).norm(dim=1)
        broken = (reps * torch.arange(36)).sin().sum(1) > 4
        torch.minimum(nearest, torch.where(broken, size, torch.inf), out=nearest)
        return broken

    def goal(at: Tensor) -> tuple[Tensor, Tensor]:
        reps = at.flatten(1)
        return (reps * torch.arange(36)).sin().sum(1) - 4, reps

    rng = Rng(0, ids=tuple(map(str, range(N))))
    smallest, _ = tournament(Sought(goal, breaks), x, L2(), 40, rng)
    torch.testing.assert_close(smallest.radius, nearest)


def subject(seen: Shard, radius: Tensor) -> Any:
    """Return what a check reads of the first images of some shard."""
    radii, count = {"radius": radius, "halfway": radius * 1.2}, len(radius)
    first = replace(
        seen,
        x=seen.x[:count],
        positions=torch.arange(count),
        rng=seen.rng.at(seen.rng.ids[:count]),
        read=lambda _: radii,
    )
    return SimpleNamespace(
        read=lambda observation: radii if isinstance(observation, BreakingRadii) else observation.run(first)
    )


@pytest.mark.sweep(2)
@pytest.mark.parametrize("ball", [Linf(), L2()])
def test_the_check_notices_changes_that_are_too_large(ball: Ball) -> None:
    seen = shard(Encoder(network(), mean=0, std=1), population(0, 1))
    radius = BreakingRadii(ball, steps=100).run(seen)["radius"][:8]
    check = SmallerChange(ball)
    assert check.judge(subject(seen, radius)).status in ("pass", "warn")
    weak = check.judge(subject(seen, 1.5 * radius))
    assert weak.status == "fail"
    assert weak.details["gain"] == pytest.approx(1 / 6)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("ball", [Linf(), L2()])
def test_smaller_changes_are_smaller_whoever_is_attacked_beside(ball: Ball) -> None:
    seen = shard(Encoder(network(), mean=0, std=1), population(0, 1))
    radius = 1.3 * BreakingRadii(ball, steps=100).run(seen)["radius"]
    radius[2], radius[4] = 0.0, torch.inf  # fails as it is; no change is known
    read = {"radius": radius}
    looks: list[Tensor] = []

    def run(rows: list[int]) -> list[float]:
        at = torch.tensor(rows)
        some = replace(
            seen, x=seen.x[at], positions=at, rng=seen.rng.at([seen.rng.ids[row] for row in rows]), read=lambda _: read
        )
        with seen.encoder.module[0].register_forward_pre_hook(lambda _, arguments: looks.append(arguments[0])):
            return SmallerChanges(BreakingRadii(ball), Apgd(10)).run(some)["broken"].tolist()

    whole = run([0, 1, 2, 3, 4, 5])
    examined, reached = [0, 1, 3, 5], torch.stack([images for images in looks if len(images) == 4])
    sizes = torch.stack([ball.size(images - seen.x[examined]) for images in reached])
    assert bool((sizes <= 0.9 * radius[examined] + 1e-6).all())
    assert 0 < sum(whole) < 6
    assert whole[2] == whole[4] == 0
    assert [run([row])[0] for row in range(6)] == whole
    assert run([5, 1, 3]) == [whole[5], whole[1], whole[3]]


def test_the_band_holds_the_whole_curve_as_often_as_it_says() -> None:
    at, draws, n, inside = torch.linspace(0.01, 0.99, 99), 400, 30, 0
    generator = torch.Generator().manual_seed(0)
    for _ in range(draws):
        _, low, high = survival(torch.rand(n, generator=generator), at)
        inside += bool(((low <= 1 - at.double()) & (1 - at.double() <= high)).all())
    assert 0.93 <= inside / draws <= 0.99  # 0.95 at all places, and a little more at 99 of them; ± 2 in 100


def table(radius: list[float], proved: list[float]) -> dict[str, Tensor]:
    broken = torch.tensor(radius, dtype=torch.float64)
    return {
        "broken": broken, "halfway": broken * 1.1, "proved": torch.tensor(proved, dtype=torch.float64),
        "population": torch.full_like(broken, 100.0), "level": torch.full_like(broken, 1 / 255),
        "apart": 0.5 * torch.arange(1, 1 + len(broken)).double(),
    }  # fmt: skip


def test_the_answer_in_words() -> None:
    measure = BreakingRadius()
    observed = table([k / 255 for k in range(1, 12)], [0.5 / 255] * 8 + [torch.nan] * 3)
    scores = measure.score(observed)
    assert list(scores)[-1] == "median"
    assert scores["median"].value == pytest.approx(6 / 255)
    assert scores["holds at 4/255"].value == pytest.approx(7 / 11)
    words = measure.in_words(observed, scores)
    assert words.text == (
        "Half of 11 images are taken for another one after a change of 6/255 (95 %: 2 to 10). "
        "Proved: half of 8 images hold up to 0.500/255 (no interval)."
    )
    assert words.is_number
    assert "nearer to that of any other image" in words.definition
    assert measure.in_255ths
    assert not BreakingRadius(L2()).in_255ths
    (chart,) = measure.charts(observed, scores)
    solid, dashed = chart.lines  # pyright: ignore[reportAttributeAccessIssue]
    assert solid.y[0] == 1.0
    assert solid.y[-1] == 0.0
    assert dashed.style == "dashed"
    assert chart.named == ()  # pyright: ignore[reportAttributeAccessIssue]
    assert chart.in_255ths  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("ball", [Linf(), L2()])
@pytest.mark.parametrize("scale", [0.0071, 1.0177, 12.63, 181.2])
def test_the_sentence_has_the_digits_of_the_table(ball: Ball, scale: float) -> None:
    measure = BreakingRadius(ball=ball, certified=0)
    observed = table([scale / 255 * (1 + k / 400) for k in range(40)], [torch.nan] * 40)
    observed["level"] = torch.full_like(observed["broken"], 0.5)
    score = measure.score(observed)["median"]
    value, interval = format_score(score, "pixels", measure.in_255ths)
    says = measure.in_words(observed, {"median": score}).says
    assert f"after a change of {value} " in says
    assert f"95 %: {interval.strip('[]').replace(', ', ' to ')}" in says


def test_what_was_not_broken_is_no_number() -> None:
    measure = BreakingRadius(certified=0)
    observed = table([0.1] * 4 + [torch.inf] * 6, [torch.nan] * 10)
    scores = measure.score(observed)
    assert scores["median"].value is None
    assert "not broken at all" in scores["median"].note
    assert measure.in_words(observed, scores).text == (
        "No change was found after which half of 10 images are taken for another one."
    )
    with pytest.raises(BadValue, match="certified"):
        BreakingRadius(certified=-1)
    with pytest.raises(BadValue, match="steps >= 10"):
        BreakingRadius(steps=3)


def test_a_length_is_held_against_a_change_of_every_pixel() -> None:
    observed = table([12.8 / 255 * (1 + k / 1000) for k in range(20)], [torch.nan] * 20)
    observed["level"] = torch.full_like(observed["broken"], 0.5)
    measure = BreakingRadius(L2(), certified=0)
    says = measure.in_words(observed, measure.score(observed)).says
    assert "in ℓ2" in says
    assert "a change of every pixel by one tone is 0.5)" in says


@pytest.mark.parametrize("ball", [Linf(), L2()])
def test_no_encoder_holds_beyond_the_nearest_other_image(ball: Ball) -> None:
    images = torch.cat([population(0, 1), population(0, 1)[:1]])  # the first image twice
    images[0, 0, 0, :2] = images[N, 0, 0, :2] = torch.tensor([0.25, 0.5])
    seen = shard(Encoder(network(), mean=0, std=1), images)
    thumbnails = Thumbnails().run(seen)
    limit = NearestImage(ball).run(replace(seen, read=lambda observation: thumbnails))
    apart = torch.stack([ball.size(images - image) for image in images])
    truth = apart.masked_fill(apart == 0, torch.inf).amin(1).double()
    torch.testing.assert_close(limit["apart"], truth)
    assert (BreakingRadii(ball).run(seen)["radius"] <= limit["apart"]).all()


def test_only_being_taken_for_another_image_is_bounded_by_the_others() -> None:
    """At another image of the same class a classifier is right, and representations may not have moved far."""
    observed = table([0.2 + k / 100 for k in range(20)], [torch.nan] * 20)
    assert "of any encoder" in BreakingRadius().score(observed)
    for failure in (Misclassified(), Drifted(0.5)):
        measure = BreakingRadius(failure=failure, certified=0)
        scores = measure.score(observed)
        assert "of any encoder" not in scores
        assert not any("No encoder" in line for line in measure.in_words(observed, scores).further)


def test_a_grey_level_is_the_smallest_step_of_an_image_and_no_finer_than_that_of_a_file() -> None:
    steps = torch.tensor([0.0, 0.25, 0.5, 1.0])
    images = torch.stack([steps[None, None], torch.rand(1, 1, 4), torch.full((1, 1, 4), 0.3)])
    seen = shard(Encoder(nn.Flatten(), mean=0, std=1), images)
    read = Thumbnails().run(seen)
    levels = [NearestImage(ball).run(replace(seen, read=lambda _: read))["level"] for ball in (Linf(), L2())]
    torch.testing.assert_close(levels[0][[0, 2]], torch.tensor([0.25, 1.0], dtype=torch.float64))
    assert levels[0][1] >= 1 / 255 - 1e-9
    torch.testing.assert_close(levels[1], 2 * levels[0])
