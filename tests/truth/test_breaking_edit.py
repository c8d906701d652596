"""Everyday edits of a strength: against amounts in closed form, every strength of a fine grid, and all pairs."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor, nn

from holdfast.core import Album, Corruption, Encoder, Failure, HoldfastError, Images, Passes, Rng, Shard, Threat
from holdfast.parts.failures.misclassified import Misclassified
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.measures.corruptions.breaking_edit import BreakingEdit
from holdfast.parts.measures.shared.edits import EVERYDAY
from holdfast.parts.observations.edited import Edited
from holdfast.parts.observations.edited_twice import EditedTwice
from holdfast.parts.observations.harmful_pair import HarmfulPair, find_failures
from holdfast.parts.threats.banner import Banner
from holdfast.parts.threats.blur import Blur
from holdfast.parts.threats.border import Border
from holdfast.parts.threats.brightness import Brightness
from holdfast.parts.threats.chain import Chain
from holdfast.parts.threats.contrast import Contrast
from holdfast.parts.threats.crop import Crop
from holdfast.parts.threats.edit import Edit
from holdfast.parts.threats.extreme import Extreme
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.jpeg import Jpeg
from holdfast.parts.threats.rescale import Rescale
from holdfast.parts.threats.rotation import Rotation
from holdfast.parts.threats.translation import Translation
from holdfast.parts.threats.uniform import Uniform
from holdfast.runtime.errors import BadValue, Conflict, NotEnough, Unsupported
from holdfast.storage.run_folder import Store

N = 24
BRIGHTER = Edit(Extreme(Brightness(0.01)), Extreme(Brightness(0.41)))


class Mean(nn.Module):
    """The mean of all pixels."""

    def forward(self, x: Tensor) -> Tensor:
        """Return it, [B, 1]."""
        return x.flatten(1).mean(1, keepdim=True)


class Wave(nn.Module):
    """The mean m of all pixels, moved by a wave of it: it comes back."""

    def forward(self, x: Tensor) -> Tensor:
        """Return sin(25 m), cos(25 m) and m."""
        m = x.flatten(1).mean(1, keepdim=True)
        return torch.cat([(25 * m).sin(), (25 * m).cos(), m], 1)


def shard(module: nn.Module, images: Images, rows: Tensor | None = None) -> Shard:
    rows = torch.arange(len(images)) if rows is None else rows
    encoder = Encoder(module.to(images.dtype).eval(), mean=0, std=1)
    with torch.no_grad():
        clean = encoder(images)
    rng = Rng(0, ids=tuple(str(int(row)) for row in rows))
    return Shard(encoder, images[rows], rows, rng, clean, others=lambda at: images[at])


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 256, 48), nn.Tanh(), nn.Linear(48, 6))


def pictures(count: int = N) -> Images:
    """Return pictures that are not much unlike each other."""
    generator = torch.Generator().manual_seed(3)
    coarse = nn.functional.interpolate(torch.rand(count, 3, 4, 4, generator=generator), 16, mode="bilinear")
    return 0.25 + 0.5 * coarse + 0.05 * torch.rand(count, 3, 16, 16, generator=generator)


def failing(own: Shard, threat: Threat, failure: Failure | None = None) -> Tensor:
    """Return which images of a whole population are nearer to another one after a threat, by all distances."""
    assert own.clean is not None
    with torch.no_grad():
        reps = own.encoder(threat.sample(own.x, own.rng))
    apart = torch.cdist(reps.double(), own.clean.double(), compute_mode="donot_use_mm_for_euclid_dist")
    return apart.amin(1) < apart.diagonal() - 1e-9


def test_the_brightness_that_turns_a_mean_into_its_neighbour_is_exact() -> None:
    """Even images of grey g_i: x + b is nearer to g_{i+1} as soon as b > (g_{i+1} - g_i) / 2."""
    grey = torch.tensor([0.1, 0.142, 0.25, 0.4, 0.55]).double()
    found = Edited(BRIGHTER, strengths=9, halvings=8).run(shard(Mean(), grey.view(-1, 1, 1, 1).expand(-1, 1, 4, 4)))
    exact = (grey[1:] - grey[:-1]) / 2
    amounts = torch.tensor([BRIGHTER.amount(float(s)) for s in found["strength"][:-1]])
    step = 0.4 / 8 / 2**8
    assert (amounts > exact).all()
    assert (amounts <= exact + step + 1e-3).all()  # amounts have three digits
    assert found["strength"][-1] == torch.inf  # nothing is brighter
    assert found["rival"].tolist() == [1, 2, 3, 4, -1]
    assert (found["held"][:-1] < found["strength"][:-1]).all()
    assert ((found["strength"] - found["held"])[:-1] * 0.4 <= step + 1e-9).all()


@pytest.mark.parametrize("edit", EVERYDAY, ids=lambda edit: edit.title)
def test_every_edit_breaks_where_it_is_said_to_and_not_at_the_grid_below(edit: Edit) -> None:
    own, asked = shard(network(), pictures()), Edited(edit, strengths=6, halvings=2)
    found = asked.run(own)
    grid = torch.stack([failing(own, edit.at(i / 5)) for i in range(6)], 1)
    assert torch.equal(found["values"] > 1e-4, grid)
    first = torch.where(grid.any(1), grid.int().argmax(1) / 5, torch.inf)
    strength = found["strength"]
    assert (strength <= first + 1e-12).all()
    for row in strength.isfinite().nonzero().flatten().tolist():
        assert failing(own, edit.at(float(strength[row])))[row]
        held = float(found["held"][row])
        assert not (held >= 0 and failing(own, edit.at(held))[row])
        below = [i / 5 for i in range(6) if i / 5 < float(strength[row]) - 1e-12]
        assert not below or held >= below[-1] - 1e-12
        assert not grid[row, : len(below)].any()


def test_what_comes_back_is_found_at_the_first_strength_of_a_fine_grid() -> None:
    """An encoder that returns to where it was: a coarse grid misses a narrow first peak."""
    grey = torch.tensor([0.1, 0.157, 0.199, 0.253, 0.302, 0.348, 0.41, 0.452, 0.507]).double()
    own = shard(Wave(), grey.view(-1, 1, 1, 1).expand(-1, 1, 4, 4))
    brute = torch.stack([failing(own, BRIGHTER.at(i / 320)) for i in range(321)], 1)
    truth = torch.where(brute.any(1), brute.int().argmax(1).double() / 320, torch.inf)
    again = (brute.int().cummax(1).values.bool() & ~brute).any(1)
    assert again.any()  # not monotone
    fine = Edited(BRIGHTER, strengths=41, halvings=3).run(own)
    torch.testing.assert_close(fine["strength"], truth, rtol=0, atol=1e-9)
    assert (truth < 1).sum() > 4
    for strengths in (4, 6, 11):  # an upper bound, however coarse
        coarse = Edited(BRIGHTER, strengths=strengths, halvings=3).run(own)["strength"]
        assert (coarse >= truth - 1 / 320).all()


class Bump(nn.Module):
    """Is another image's at a mean of about 0.5, and its own on both sides."""

    def forward(self, x: Tensor) -> Tensor:
        """Return 1 at 0.5, falling off as a Gaussian of σ = 0.04, and how the image differs from top to bottom."""
        m = x.flatten(1).mean(1, keepdim=True)
        return torch.cat([(-((m - 0.5) ** 2) / 2 / 0.04**2).exp(), x[:, 0, :1, 0] * 0], 1)


def test_a_peak_between_the_points_of_the_grid_is_looked_for() -> None:
    """Two images: one at 0.1, one at 0.5, where the bump is. Adding 0.4 makes the first into the second."""
    images = torch.tensor([0.1, 0.5]).double().view(-1, 1, 1, 1).expand(-1, 1, 4, 4)
    edit = Edit(Extreme(Brightness(0.25)), Extreme(Brightness(0.55)))
    own = shard(Bump(), images)
    grid = torch.stack([failing(own, edit.at(i / 3)) for i in range(4)], 1)
    assert not grid[0].any()  # at 0.35, 0.45, 0.55 and 0.65, all beside the middle of the bump
    found = Edited(edit, strengths=4, halvings=4).run(own)
    assert found["strength"][0].isfinite()
    assert failing(own, edit.at(float(found["strength"][0])))[0]


def test_images_depend_on_no_others_and_passes_are_those_that_were_made() -> None:
    images = pictures().double()
    for edit in (EVERYDAY[0], EVERYDAY[10]):
        asked = Edited(edit, strengths=5, halvings=2)
        own = shard(network(), images)
        before = own.encoder.passes
        whole = asked.run(own)
        spent = own.encoder.passes - before
        assert 5 * N <= spent.forward <= asked.passes.forward * N
        assert spent.backward == 0
        order = torch.randperm(N, generator=torch.Generator().manual_seed(0))
        parts = [asked.run(shard(network(), images, rows)) for rows in (order[:9], order[9:])]
        for key in ("strength", "held", "rival"):
            mixed = torch.cat([part[key] for part in parts])
            torch.testing.assert_close(mixed, whole[key][order], equal_nan=True)


def test_what_fails_as_it_is_breaks_at_nothing() -> None:
    """Grey 0.3 is of class 1 from 0.35 on: the first image is wrong, and right as soon as it is brighter."""
    images = torch.tensor([0.3, 0.3, 0.05]).double().view(-1, 1, 1, 1).expand(-1, 1, 4, 4)
    own = replace(shard(Mean(), images), labels=torch.tensor([1, 0, 0]), head=lambda probe: Above())
    edit = Edit(Extreme(Brightness(0.1)), Extreme(Brightness(0.4)))
    found = Edited(edit, Misclassified(), strengths=4, halvings=6).run(own)
    assert found["wrong"].tolist() == [1, 0, 0]
    assert (found["values"][0] < 0).all()
    assert found["strength"][:2].tolist() == [0, 0]
    assert found["held"][:2].isnan().all()
    assert edit.amount(float(found["strength"][2])) == pytest.approx(0.3, abs=0.3 / 3 / 2**6 + 1e-3)
    assert found["gallery.largest"][0] == 0
    assert (found["gallery.largest"][1:] > 0).all()
    assert found["rival"].tolist() == [-1, -1, -1]


class Above:
    """A head whose second class begins at 0.35."""

    weights = torch.tensor([[0.0], [1.0]]).double()
    bias = torch.tensor([0.0, -0.35]).double()

    def numbers(self, labels: Tensor) -> Tensor:
        """Return them."""
        return labels


def test_pictures_show_the_edit_that_breaks_an_image(tmp_path: Path) -> None:
    images, edit = pictures(), EVERYDAY[0]
    found = Edited(edit, strengths=5, halvings=2).run(shard(network(), images))
    ids = [f"image {row}" for row in range(N)]
    album = Album(Store(tmp_path), "e", 0, (), 0, ids, None, torch.zeros(N, 6), N, lambda position: images[position])
    first, last = Edited(edit).pictures(found, album)
    strengths = found["strength"][found["strength"].isfinite()]
    for entry, strength in ((first, strengths.min()), (last, strengths.max())):
        position = int(entry["id"].removeprefix("image "))
        assert entry["radius"] == float(found["strength"][position]) == float(strength)
        assert entry["edit"] == edit.at(float(strength)).title
        assert entry["rival"]["id"] == f"image {int(found['rival'][position])}"
        expected = edit.at(float(strength)).sample(images[[position]], Rng(0, ids=("a",)))[0]
        shown = np.asarray(PIL.Image.open(tmp_path / entry["attacked"])).astype(float).transpose(2, 0, 1) / 255
        assert np.abs(shown - expected.numpy()).max() <= 1 / 127 + 1 / 255


# --- pairs ----------------------------------------------------------------------------------------

MILD = (
    Edit(Extreme(Brightness(0.01)), Extreme(Brightness(0.09))),
    Edit(Extreme(Contrast(0.05), "lower"), Extreme(Contrast(0.6), "lower")),
    Edit(Banner(0.05), Banner(0.5)),
    Edit(Blur(0.005), Blur(0.04)),
    Edit(Crop(0.98), Crop(0.4)),
)


def observed(chosen: HarmfulPair, images: Images, first: int) -> tuple[dict[str, Tensor], dict[str, Tensor], Shard]:
    """Return what the last images choose and what the first ones say of it."""
    known: dict[Any, dict[str, Tensor]] = {}
    last = torch.arange(first, len(images))
    choosing = shard(network(), images, last)
    known[chosen] = chosen.run(choosing)
    judges = replace(shard(network(), images, torch.arange(first)), read=lambda observation: known[observation])
    return known[chosen], EditedTwice(chosen).run(judges), judges


def by_hand(images: Images, rows: Tensor, threats: tuple[Corruption, ...]) -> Tensor:
    own = shard(network(), images)
    x = own.x
    for threat in threats:
        x = threat.sample(x, own.rng)
    with torch.no_grad():
        reps = own.encoder(x)
    assert own.clean is not None
    apart = torch.cdist(reps.double(), own.clean.double())
    return (apart.amin(1) < apart.diagonal() - 1e-9)[rows].double()


def test_the_pair_is_the_worst_of_all_pairs_of_harmless_edits() -> None:
    images, first = pictures(40), 20
    choosing, judging = torch.arange(first, 40), torch.arange(first)
    chosen, judged, _ = observed(HarmfulPair(MILD, levels=4, harmless=0.2), images, first)
    # the heaviest level up to which each is harmless, by hand
    strengths = []
    for number, edit in enumerate(MILD):
        shares = [float(by_hand(images, choosing, (edit.at(k / 4),)).mean()) for k in range(1, 5)]
        good = next((k for k, share in enumerate(shares) if share > 0.2), 4)
        strengths.append(good / 4)
        known = chosen["alone"][number]
        assert known[: good + 1].tolist() == pytest.approx(shares[: good + 1])
        assert known[good + 1 :].isnan().all()
    assert chosen["strength"].tolist() == strengths
    assert any(0 < strength < 1 for strength in strengths)  # some stop early
    # all pairs, by hand
    shares = {
        pair: float(by_hand(images, choosing, tuple(MILD[n].at(strengths[n]) for n in pair)).mean())
        for pair in combinations([n for n, strength in enumerate(strengths) if strength], 2)
    }
    assert int(chosen["together"].isfinite().sum()) == len(shares)
    for pair, share in shares.items():
        assert float(chosen["together"][pair]) == pytest.approx(share)
    best = max(shares, key=lambda pair: shares[pair])
    assert tuple(chosen["pair"].tolist()) == best
    assert len(set(shares.values())) > 1
    # and what it does to others
    both = tuple(MILD[n].at(strengths[n]) for n in best)
    assert torch.equal(judged["together"], by_hand(images, judging, both))
    assert torch.equal(judged["first"], by_hand(images, judging, both[:1]))
    assert torch.equal(judged["second"], by_hand(images, judging, both[1:]))
    assert judged["together"].sum() > torch.maximum(judged["first"], judged["second"]).sum()


def test_the_first_edit_of_a_pair_is_applied_first() -> None:
    """A crop takes a banner away that is there already; a banner over a crop darkens grey 0.9 to 0.72."""
    own = shard(Mean(), torch.tensor([0.9, 0.6]).double().view(-1, 1, 1, 1).expand(-1, 1, 16, 16))
    event, links = Nearest().bind(own), (Crop(0.5), Banner(0.25, opacity=0.8))
    assert find_failures(own, event, links).tolist() == [1, 0]
    assert find_failures(own, event, links[::-1]).tolist() == [0, 0]


def test_no_image_chooses_and_judges() -> None:
    for population, attacked in ((2, 2), (3, 3), (24, 24), (100, 24), (100, 90)):
        chosen = HarmfulPair(MILD, most=16)
        judged = EditedTwice(chosen).images(population, attacked)
        assert judged + chosen.images(population, attacked) <= population
        assert 0 < judged <= attacked
    assert HarmfulPair(MILD, levels=3).passes == Passes(forward=3 * 5 + 10)


def test_without_two_harmless_edits_there_is_no_pair() -> None:
    heavy = (Edit(Crop(0.5), Crop(0.2)), Edit(Extreme(Brightness(0.3)), Extreme(Brightness(0.4))))
    chosen, judged, judges = observed(HarmfulPair(heavy, harmless=0.0), pictures(), 12)
    assert chosen["pair"].tolist() == [-1, -1]
    assert judged["together"].isnan().all()
    assert judges.encoder.passes.forward == N  # clean ones alone


# --- the measure ----------------------------------------------------------------------------------


class Known:
    """A subject of which some observations are known."""

    encoder = None
    seed = 0

    def __init__(self, measure: BreakingEdit, images: Images, attacked: int):
        self.population, self.attacked = len(images), attacked
        self.ids, self.labels = [str(row) for row in range(len(images))], None
        self.known: dict[Any, dict[str, Tensor]] = {}
        for observation in measure.observations()[1:]:
            count = observation.images(len(images), attacked)
            last = isinstance(observation, HarmfulPair)
            rows = torch.arange(len(images) - count, len(images)) if last else torch.arange(count)
            own = replace(shard(network(), images, rows), read=lambda known: self.known[known])
            self.known[observation] = observation.run(own)

    def read(self, observation: Any) -> dict[str, Tensor]:
        """Return what is known."""
        return self.known[observation]


def test_scores_are_those_of_the_strengths() -> None:
    light = Edit(Extreme(Brightness(0.01)), Extreme(Brightness(0.04)))
    edits = (light, Edit(Crop(0.99), Crop(0.8)), Edit(Blur(0.005), Blur(0.06)))
    measure = BreakingEdit(edits, strengths=5, halvings=2, levels=2, harmless=0.2, choosing=16)
    table = measure.observe(Known(measure, pictures(40), 24))  # pyright: ignore[reportArgumentType]
    scores = measure.score(table)
    strengths = torch.stack([table[f"strength@{edit.title}"] for edit in edits])
    for edit, own in zip(edits, strengths, strict=True):
        assert scores[edit.title].value == pytest.approx(float(own.isinf().double().mean()))
        assert scores[edit.title].n == 24
        median = scores[f"{edit.title}: half break by"]
        if own.isinf().double().mean() > 0.5:
            assert median.value is None
            assert "not broken at all" in median.note
        else:
            assert median.value == pytest.approx(edit.amount(float(own.quantile(0.5))), rel=1e-3)
            assert median.note.startswith(f"in {edit.parameter}")
    reach = strengths.amin(0).clamp_max(1)
    assert list(scores)[-1] == "reach of all edits"
    assert scores["reach of all edits"].value == pytest.approx(float(reach.mean()))
    assert scores["every edit"].value == pytest.approx(float((strengths.amin(0) == torch.inf).double().mean()))
    judged = ~table["together"].isnan()
    assert int(judged.sum()) == 24
    assert scores["worst pair"].value == pytest.approx(1 - float(table["together"][judged].mean()))
    assert "chosen on 16 other images" in scores["worst pair"].note
    assert scores["worst pair, each alone"].value >= scores["worst pair"].value  # pyright: ignore[reportOptionalOperand]
    assert 0 < scores["every edit"].value < 1  # pyright: ignore[reportOptionalOperand]
    # which edit was first
    rows = ~table["first"].isnan()
    assert torch.equal(table["first"][rows].long(), strengths.argmin(0)[rows])
    assert torch.equal(~rows, strengths.isinf().all(0))
    # curves and words say the same
    every, *single = measure.charts(table, scores)
    assert [chart.title for chart in single] == [edit.title for edit in edits]
    assert every.lines[0].y[0] == pytest.approx(float((table["strength"] > 0).double().mean()))  # pyright: ignore
    assert every.lines[0].y[-1] == pytest.approx(float((table["strength"] > 1).double().mean()))  # pyright: ignore
    text = measure.in_words(table, scores).text
    assert "3 everyday edits may go" in text
    assert f"{int(strengths.isinf().all(0).sum())} of 24 images hold to the end" in text


def test_a_quality_that_falls_has_its_ends_in_order() -> None:
    measure = BreakingEdit((Edit(Jpeg(95), Jpeg(5)),), levels=0)
    strengths = torch.linspace(0.1, 0.9, 21).double()
    title = measure.edits[0].title
    table = {
        f"strength@{title}": strengths, f"again@{title}": torch.zeros(21), "strength": strengths, "reach": strengths,
        "population": torch.full((21,), 21.0),
    }  # fmt: skip
    score = measure.score(table)[f"{title}: half break by"]
    assert score.value == 50
    assert score.low is not None
    assert score.high is not None
    assert score.low < 50 < score.high


# --- the threats ----------------------------------------------------------------------------------


def test_an_edit_is_its_ends_and_what_lies_between() -> None:
    chain = Edit(Chain((Rescale(0.9), Jpeg(90))), Chain((Rescale(0.5), Jpeg(10))))
    assert (chain.at(0), chain.at(1)) == (chain.mild, chain.heavy)
    assert chain.at(0.5) == Chain((Rescale(0.7), Jpeg(50)))
    assert (chain.parameter, chain.amount(0.3)) == ("", 0.3)
    turn = Edit(Extreme(Rotation(2.0), "lower"), Extreme(Rotation(30.0), "lower"))
    assert turn.at(0.25) == Extreme(Rotation(9.0), "lower")
    assert (turn.parameter, turn.amount(0.25)) == ("degrees", 9.0)
    assert Edit(Jpeg(95), Jpeg(10)).at(0.333).quality == 67  # pyright: ignore[reportAttributeAccessIssue]
    # as a threat: strengths that depend on the image's id alone
    x, rng = pictures(6), Rng(0, ids=tuple("abcdef"))
    whole = chain.sample(x, rng)
    assert torch.equal(chain.sample(x[[4, 1]], rng.at(["e", "b"])), whole[[4, 1]])


def test_extremes_are_the_ends_of_a_noise() -> None:
    x, rng = pictures(3), Rng(0, ids=tuple("abc"))
    torch.testing.assert_close(Extreme(Brightness(0.1)).sample(x, rng), (x + 0.1).clamp(0, 1))
    middle = x.mean((1, 2, 3), keepdim=True)
    torch.testing.assert_close(Extreme(Contrast(0.5), "lower").sample(x, rng), middle + 0.5 * (x - middle))
    quarter = Extreme(Rotation(90.0)).sample(x, rng)
    torch.testing.assert_close(quarter, x.rot90(1, (2, 3)), rtol=0, atol=1e-4)  # anticlockwise
    back = Extreme(Rotation(90.0), "lower").sample(quarter, rng)
    torch.testing.assert_close(back, x, rtol=0, atol=2e-4)
    moved = Extreme(Translation(0.25)).sample(x, rng)  # 4 of 16 pixels down and to the right
    torch.testing.assert_close(moved[:, :, 4:, 4:], x[:, :, :-4, :-4], rtol=0, atol=1e-4)


def test_new_edits_by_hand() -> None:
    x, rng = pictures(2), Rng(0, ids=("a", "b"))
    barred = Banner(0.3, opacity=0.75, level=1.0).sample(x, rng)
    assert torch.equal(barred[:, :, :11], x[:, :, :11])  # ⌈0.3 · 16⌉ = 5 rows
    torch.testing.assert_close(barred[:, :, 11:], 0.25 * x[:, :, 11:] + 0.75)
    framed = Border(0.25, level=0.5).sample(x, rng)
    inner = nn.functional.interpolate(x, 8, mode="bilinear", antialias=True)
    torch.testing.assert_close(framed[:, :, 4:12, 4:12], inner)
    framed[:, :, 4:12, 4:12] = 0.5
    assert (framed == 0.5).all()
    point = torch.zeros(1, 1, 33, 33)
    point[0, 0, 16, 16] = 1
    spread = Blur(2 / 33).sample(point, Rng(0, ids=("a",)))[0, 0]
    places = torch.arange(33.0) - 16
    kernel = (-(places**2) / 8).exp().masked_fill(places.abs() > 8, 0)
    torch.testing.assert_close(spread, torch.outer(kernel, kernel) / kernel.sum() ** 2, rtol=1e-4, atol=1e-7)
    chained = Chain((Crop(0.8), Jpeg(40))).sample(x, rng)
    assert torch.equal(chained, Jpeg(40).sample(Crop(0.8).sample(x, rng), rng))


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: Edit(Jpeg(10), Jpeg(95)), BadValue, "edit"),
        (lambda: Edit(Crop(0.5), Crop(0.95)), BadValue, "edit"),
        (lambda: Edit(Jpeg(50), Jpeg(50)), BadValue, "JPEG 50"),
        (lambda: Edit(Jpeg(95), Crop(0.5)), BadValue, "jpeg"),
        (lambda: Edit(Gamma(0.9), Gamma(0.5, resolution="encoder")), BadValue, "resolution"),
        (lambda: Edit(Extreme(Rotation(5.0)), Extreme(Rotation(9.0), "lower")), BadValue, "'upper'"),
        (lambda: Edit(Jpeg(95), Jpeg(0)), BadValue, "quality"),
        (lambda: Edit().at(1.5), BadValue, r"got 1\.5"),
        (lambda: Extreme(Uniform()), BadValue, "extreme"),
        (lambda: Extreme(Rotation(), "uper"), BadValue, "expected 'upper' or 'lower', got 'uper'"),
        (lambda: Chain(()), BadValue, "chain"),
        (lambda: Chain((Jpeg(resolution="encoder"),)), Conflict, "chain"),
        (lambda: Banner(0.0), BadValue, "got 0"),
        (lambda: Banner(level=2.0), BadValue, "level"),
        (lambda: Border(0.5), BadValue, r"got 0\.5"),
        (lambda: Border(level=2.0), BadValue, "level"),
        (lambda: Blur(0.0), BadValue, "above 0"),
        (lambda: Edited(strengths=1), BadValue, "strengths >= 2"),
        (lambda: Edited(halvings=21), BadValue, "20 halvings"),
        (lambda: HarmfulPair(harmless=1.5), BadValue, r"got 1\.5"),
        (lambda: HarmfulPair(()), BadValue, "edits"),
        (lambda: BreakingEdit(()), BadValue, "edits"),
        (lambda: BreakingEdit(strengths=1), BadValue, "strengths >= 2"),
        (lambda: BreakingEdit((Edit(), Edit())), BadValue, "'JPEG 95 to 10'"),
        (lambda: BreakingEdit((Edit(label="worst pair"),)), BadValue, "label"),
        (lambda: BreakingEdit(edits=(Jpeg(),)), BadValue, r"breaking_edit\.edits"),  # pyright: ignore[reportArgumentType]
    ],
)  # fmt: skip
def test_what_is_no_edit_is_refused_in_a_line(make: Any, kind: type[HoldfastError], message: str) -> None:
    with pytest.raises(kind, match=message) as error:
        make()
    assert "\n" not in str(error.value)


def test_images_that_an_edit_does_not_fit_are_refused() -> None:
    two = torch.rand(3, 2, 8, 8)
    net = nn.Sequential(nn.Flatten(), nn.Linear(128, 4))
    with pytest.raises(Unsupported, match="2 channels"):
        Edited(Edit(Jpeg(95), Jpeg(10))).run(shard(net, two))
    assert Edited(Edit(Crop(0.9), Crop(0.5))).run(shard(net, two))["strength"].shape == (3,)
    with pytest.raises(NotEnough, match="got 1"):
        Edited(failure=Nearest()).run(shard(network(), pictures(1)))
