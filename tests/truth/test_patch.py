"""The worst patch of linear encoders, over all windows by hand; certificates that no patch beats; patches pasted."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d

from holdfast.core import Attack, Encoder, HoldfastError, Margin, Passes, Rng
from holdfast.numerics.bounds.backward import Region
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.bim import Bim
from holdfast.parts.attacks.fgsm import Fgsm
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.certifiers.alpha_crown import AlphaCrown
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.crown_ibp import CrownIbp
from holdfast.parts.certifiers.interval import Interval
from holdfast.parts.learners.universal import Universal
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.patch import Patch
from holdfast.runtime.errors import BadValue, Mismatch, UnknownName

SHAPE = (2, 5, 6)
IDS = tuple("abcdef")
PLACES = ("anywhere", "centre", "bottom-right", (0.0, 0.7), "random")


def images(count: int = 6, seed: int = 0) -> Tensor:
    return torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(seed))


def windows(patch: Patch, height: int = 5, width: int = 6) -> Iterator[tuple[slice, slice]]:
    """Every window of a patch, found by hand: one where its place is fixed."""
    high, wide = patch.window(height, width)
    tops, lefts = range(height - high + 1), range(width - wide + 1)
    corners: dict[Any, tuple[int, int]] = {
        "centre": (tops[-1] // 2, lefts[-1] // 2),
        "bottom-right": (tops[-1], lefts[-1]),
    }
    if patch.place == "anywhere":
        places = [(top, left) for top in tops for left in lefts]
    elif patch.place == "random":
        moved = (patch.sample(torch.full((1, 1, height, width), 0.5), Rng(0, ids=("a",)))[0, 0] != 0.5).nonzero()
        places = [tuple(moved.amin(0).tolist())]
    else:
        places = [corners[patch.place] if patch.place in corners else (0, int(0.7 * lefts[-1]))]
    for top, left in places:
        yield slice(top, top + high), slice(left, left + wide)


def lowest(patch: Patch, slopes: Tensor, x: Tensor) -> Tensor:
    """min slopes · x' over all patches, window by window and pixel by pixel, [images]."""
    low, high = (x - patch.radius).clamp_min(0), (x + patch.radius).clamp_max(1)
    corner = torch.where(slopes > 0, low, high)
    values = []
    for rows, columns in windows(patch, *x.shape[2:]):
        moved = x.clone()
        moved[..., rows, columns] = corner[..., rows, columns]
        values.append((slopes * moved).flatten(1).sum(1))
    return torch.stack(values).amin(0)


def linear() -> tuple[Encoder, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = nn.Linear(60, 3, bias=False)
    return Encoder(nn.Sequential(nn.Flatten(), layer), mean=0, std=1), layer.weight.detach()


@pytest.mark.sweep(6)
@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize(
    ("radius", "aspect"),
    [(1.0, 1.0), (0.3, 2.0), *(pytest.param(*both, marks=pytest.mark.slow) for both in ((1.0, 2.0), (0.3, 1.0)))],
)
def test_of_a_linear_encoder_attacks_reach_the_worst_window_and_the_certificate_is_it(place, aspect, radius) -> None:
    patch, x = Patch(radius, share=0.2, place=place, aspect=aspect), images()
    encoder, weights = linear()
    margin = Margin(torch.randn(6, 1, 3, generator=torch.Generator().manual_seed(2)), torch.zeros(6, 1))
    slopes = (margin.weights[:, 0] @ weights).view(6, *SHAPE)
    truth = lowest(patch, slopes.double(), x.double())
    for certifier in (Crown(), Interval(), CrownIbp(), AlphaCrown()):
        torch.testing.assert_close(certifier(encoder, margin, x, patch).lower[:, 0], truth, rtol=1e-6, atol=1e-6)

    def goal(z: Tensor) -> tuple[Tensor, Tensor]:
        reps = encoder(z)
        return -margin(reps)[:, 0], reps

    attacks: list[Attack] = [Pgd(30), Apgd(30), Bim(30), Fgsm()]  # images so small have no window beside the grid
    for attack in attacks:
        reached = -attack(goal, x, patch, Rng(0, ids=IDS)).values[-1].double()
        torch.testing.assert_close(reached, truth, rtol=1e-5, atol=1e-5)
    assert bool((-Square(60)(goal, x, patch, Rng(0, ids=IDS)).values[-1] >= truth - 1e-5).all())


def convolutions(seed: int) -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = [
            nn.Conv2d(2, 4, 3, padding=seed % 2),
            nn.ReLU(),
            nn.Conv2d(4, 4, 2, stride=1 + seed % 2),
            nn.ReLU(),
            nn.Flatten(),
            nn.LazyLinear(5),
        ]
        network = nn.Sequential(*layers)
        network(torch.zeros(1, 2, 9, 8))
    return Encoder(network, mean=0.4, std=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "place"),
    [
        pytest.param(seed, place, marks=[pytest.mark.slow] * ((seed, place) != (2, "top-left")))
        for seed in range(4)
        for place in ("anywhere", "top-left")
    ],
)
def test_no_patch_of_many_beats_a_certificate(seed: int, place: str) -> None:
    """Random and extreme pixels in every window, and what attacks find."""
    patch = Patch(1.0 if seed < 2 else 0.25, share=0.06, place=place)
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(3, 2, 9, 8, generator=generator)
    encoder = convolutions(seed)
    margin = Margin(torch.randn(3, 2, 5, generator=generator), torch.randn(3, 2, generator=generator))
    lowers = {
        type(c).__name__: c(encoder, margin, x, patch).lower for c in (Crown(), Interval(), CrownIbp(), AlphaCrown())
    }
    least = torch.full((3, 2), torch.inf, dtype=torch.float64)
    for draw in range(12):
        for rows, columns in windows(patch, 9, 8) if place == "anywhere" else [(slice(0, 2), slice(0, 2))]:
            moved, pixels = x.clone(), torch.rand(3, 2, 2, 2, generator=generator)
            pixels = pixels.round() if draw % 2 else pixels
            there = x[..., rows, columns]
            moved[..., rows, columns] = pixels.clamp(there - patch.radius, there + patch.radius)
            with torch.no_grad():
                least = torch.minimum(least, margin(encoder(moved)).double())
    for row in range(2):

        def goal(z: Tensor, row: int = row) -> tuple[Tensor, Tensor]:
            reps = encoder(z)
            return -margin(reps)[:, row], reps

        found = Apgd(20)(goal, x, patch, Rng(0, ids=("a", "b", "c")))
        least[:, row] = torch.minimum(least[:, row], -found.values[-1].double())
    for name, lower in lowers.items():
        assert bool((lower <= least + 1e-5).all()), name
    linf = Crown()(encoder, margin, x, Linf(patch.radius)).lower
    assert bool((lowers["Crown"] > linf).all())  # worth more than the bound of all pixels


def textures(count: int = 24, side: int = 20) -> Tensor:
    """Images in which each place looks different: coarse and fine noise."""
    generator = torch.Generator().manual_seed(3)
    coarse = (
        torch.rand(count, 2, 4, 4, generator=generator).repeat_interleave(side // 4, 2).repeat_interleave(side // 4, 3)
    )
    return (0.7 * coarse + 0.3 * torch.rand(count, 2, side, side, generator=generator)).clamp(0, 1)


def rivals() -> tuple[Encoder, Tensor, Callable[[Tensor], tuple[Tensor, Tensor]], Callable[[Tensor, Tensor], Tensor]]:
    """A small network, images, how much nearer each is to its second nearest one, and the same as a failure."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        layers = [nn.Conv2d(2, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten()]
        head = nn.Linear(144, 8)
        head.weight.data *= torch.randn(1, 1, 3, 3).mul(1.5).exp().expand(1, 16, 3, 3).flatten(1)  # some places matter
        encoder = Encoder(nn.Sequential(*layers, head), mean=0.5, std=0.3)
    x = textures()
    with torch.no_grad():
        bank = encoder(x)

    def event(reps: Tensor, rows: Tensor) -> Tensor:
        apart = torch.cdist(reps, bank)
        own = apart.gather(2, rows[:, None, None].expand(-1, reps.shape[1], 1))
        return (own[..., 0] - apart.scatter(2, rows[:, None, None].expand(-1, reps.shape[1], 1), 1e9).amin(2)).double()

    def goal(z: Tensor) -> tuple[Tensor, Tensor]:
        reps = encoder(z)
        return event(reps[:, None], torch.arange(len(z)))[:, 0].float(), reps

    return encoder, x, goal, event


@pytest.mark.parametrize(
    "attack", [pytest.param(Pgd(20), id="pgd", marks=pytest.mark.slow), pytest.param(Apgd(20), id="apgd")]
)
def test_anywhere_attacks_are_no_weaker_than_at_one_place_and_than_one_patch_for_all(attack: Attack) -> None:
    encoder, x, goal, event = rivals()
    patch, rng = Patch(0.14, share=0.03), Rng(0, ids=tuple(map(str, range(len(x)))))
    reached = attack(goal, x, patch, rng).values[-1]
    places = torch.arange(patch.places)[:, None]
    fixed = torch.stack([attack(goal, x, patch.fix_place(place), rng).values[-1] for place in places])
    assert reached.mean() > fixed.mean(1).max()
    assert float((reached > fixed.amax(0) - 0.1).double().mean()) > 0.8
    held = float((reached <= 0).double().mean())
    assert 0 < held <= float((fixed <= 0).double().mean(1).min())
    with torch.no_grad():
        clean = encoder(x)
    encoder.passes, learner = Passes(), Universal(batch=12)
    learned = learner.learn(encoder, x, clean, event, None, patch, Rng(0))
    assert encoder.passes == learner.passes_in(patch) * len(x)
    assert held <= learned.held


def test_of_a_linear_encoder_attacks_come_near_the_worst_of_many_windows() -> None:
    x, patch = textures(), Patch(share=0.1)
    slopes = avg_pool2d(torch.randn(24, 2, 24, 24, generator=torch.Generator().manual_seed(4)), 5, 1)
    least, clean = lowest(patch, slopes, x), (slopes * x).flatten(1).sum(1)

    def goal(z: Tensor) -> tuple[Tensor, Tensor]:
        return -(slopes * z).flatten(1).sum(1), z.flatten(1)

    reached = -Pgd(20)(goal, x, patch, Rng(0, ids=tuple(map(str, range(24))))).values[-1]
    share = (clean - reached) / (clean - least)
    assert float(share.max()) < 1 + 1e-5
    assert float(share.min()) > 0.85


def test_a_part_of_the_image_is_bounded_by_the_largest_part_of_a_patch_on_it() -> None:
    """Slopes of a window of 4 x 3 pixels, with every patch of 3 x 2 of an image of 5 x 6 that may overlap it."""
    patch, generator = Patch(share=0.2, aspect=1.5), torch.Generator().manual_seed(0)
    assert patch.window(5, 6) == (3, 2)
    slopes = torch.randn(1, 40, 2, 4, 3, generator=generator).double()
    x = torch.rand(1, 2, 4, 3, generator=generator).double()
    box = (torch.zeros_like(x), torch.ones_like(x))
    least = patch.least_on(slopes, x, box, torch.ones(1).double(), SHAPE)[0]
    clean, corner = (slopes * x).flatten(2).sum(2)[0], torch.where(slopes > 0, 0.0, 1.0).double()
    reached = torch.full((40,), torch.inf).double()
    for top in range(-2, 4):
        for left in range(-1, 3):
            inside = torch.zeros(4, 3, dtype=torch.bool)
            inside[max(top, 0) : top + 3, max(left, 0) : left + 2] = True
            moved = torch.where(inside, corner[0], x)
            reached = torch.minimum(reached, (slopes[0] * moved).flatten(1).sum(1))
    torch.testing.assert_close(least, reached)
    assert bool((reached <= clean).all())


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_projections_are_the_nearest_points_and_draws_lie_in_one_window(place) -> None:
    patch, delta = (
        Patch(0.8, share=0.2, place=place),
        torch.randn(6, *SHAPE, generator=torch.Generator().manual_seed(1)),
    )
    candidates = []
    for rows, columns in windows(patch):
        point = torch.zeros_like(delta)
        point[..., rows, columns] = delta[..., rows, columns].clamp(-0.8, 0.8)
        candidates.append(point)
    apart = torch.stack([(delta - point).flatten(1).norm(dim=1) for point in candidates])
    nearest = torch.stack(candidates)[apart.argmin(0), torch.arange(6)]
    torch.testing.assert_close(patch.project(delta), nearest)
    moved = patch.sample(images(), Rng(0, ids=IDS)) - images()
    assert bool((patch.size(moved) <= 0.8).all())
    assert bool(patch.size(delta).isinf().all())
    whole = {(rows.start, columns.start) for rows, columns in windows(patch)}
    for change in moved:
        first = tuple((change != 0).any(0).nonzero().amin(0).tolist())
        assert first in whole


def test_a_window_is_where_it_is_said_to_be_whatever_the_image() -> None:
    for height, width, share in ((5, 6, 0.2), (7, 7, 0.3), (32, 24, 0.05)):
        for place, (down, across) in {"centre": (0.5, 0.5), "bottom-left": (1, 0), (1.0, 1.0): (1, 1)}.items():
            patch = Patch(share=share, place=cast("Any", place))
            high, wide = patch.window(height, width)
            assert abs(high * wide / (height * width) - share) < 0.6 * (high + wide) / (height * width)
            low, up = patch.box(torch.full((1, 1, height, width), 0.5), torch.ones(1))
            rows, columns = (low < up)[0, 0].nonzero().unbind(1)
            assert len(rows) == high * wide
            assert (int(rows.min()), int(columns.min())) == (int(down * (height - high)), int(across * (width - wide)))
            assert (int(rows.max()), int(columns.max())) == (int(rows.min()) + high - 1, int(columns.min()) + wide - 1)
    at = {
        Patch(place="random", share=0.1, seed=seed).box(images(1), torch.ones(1))[0].sum().item() for seed in range(9)
    }
    assert len(at) > 3


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_what_is_pasted_takes_the_place_of_pixels(place) -> None:
    """Whatever the image was there; all else stays; and the result lies in the ball."""
    patch, x, other = Patch(share=0.2, place=place), images(), images(seed=9)
    delta = patch.project(torch.rand(1, *SHAPE, generator=torch.Generator().manual_seed(3)) * 2 - 1)[0]
    pasted, beside = patch.under(x, delta), patch.under(other, delta)
    changed = (pasted != x).any(0).any(0)
    assert torch.equal(pasted[..., changed], beside[..., changed])
    torch.testing.assert_close(pasted[0][..., changed], (1 + delta[..., changed]) / 2)
    assert torch.equal(pasted[..., ~changed], x[..., ~changed])
    assert int(changed.sum()) == 2 * 2
    torch.testing.assert_close(patch.around(x, pasted), pasted, rtol=0, atol=1e-6)
    assert torch.equal(Patch(0.5, share=0.2).under(x, delta), x + delta)  # faint ones are added


def test_which_patches_are_among_others() -> None:
    anywhere, corner = Patch(share=0.1), Patch(share=0.1, place="top-left")
    assert anywhere.contains(corner)
    assert anywhere.contains(replace(corner, share=0.05, radius=0.5))
    assert not corner.contains(anywhere)
    assert not anywhere.contains(replace(corner, share=0.2))
    assert not anywhere.contains(replace(corner, aspect=2.0))
    assert not corner.contains(Linf(0.1))
    assert not replace(anywhere, radius=0.5).contains(corner)
    assert replace(anywhere, radius=0.2).of_usual_radius == anywhere


def test_regions_of_patches_are_boxes_where_their_place_is_fixed() -> None:
    x = images(2).double()
    low, high = Region.around(Patch(share=0.2, place="centre"), x, torch.ones(2).double()).box
    moving = (high - low) > 1e-6
    assert torch.equal(moving[0, 0], moving[1, 1])
    assert int(moving[0, 0].sum()) == 4
    assert Patch(place="centre").is_box
    assert not Patch().is_box


@pytest.mark.parametrize(
    ("fields", "kind", "message"),
    [
        ({"share": 0.0}, BadValue, "share"),
        ({"share": -0.1}, BadValue, r"-0\.1"),
        ({"share": 3.0}, BadValue, r"0\.03"),
        ({"radius": 1.5}, BadValue, "radius"),
        ({"place": "center"}, UnknownName, r"'centre'\?"),
        ({"place": (0.5, 1.2)}, BadValue, r"1\.2"),
        ({"place": (0.5,)}, BadValue, "place"),
        ({"place": "off"}, UnknownName, "off"),
        ({"aspect": 0.0}, BadValue, "aspect"),
    ],
)
def test_what_is_no_patch_is_refused(fields: dict, kind: type[HoldfastError], message: str) -> None:
    with pytest.raises(kind, match=message):
        Patch(**fields)


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (Patch(share=0.001), r"share=0\.033"),
        (Patch(share=0.5, aspect=4.0), "8 x 2"),
    ],
)
def test_windows_that_no_image_has_are_refused(patch: Patch, message: str) -> None:
    with pytest.raises(Mismatch, match=message):
        patch.project(images())
