"""Patches: tokens whose worst case is known exactly, comparisons by loops, segments counted by hand."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from sklearn.metrics import pairwise_distances
from torch import Tensor, nn

from holdfast.auditing.plan import Plan
from holdfast.core import Album, Ball, Encoder, Grid, Objective, Observation, registry
from holdfast.numerics.geometry import patches
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.measures.dense.edited_patch_breakaway import EditedPatchBreakaway
from holdfast.parts.measures.dense.patch_breakaway import OTHERS, PatchBreakaway
from holdfast.parts.measures.dense.patch_drift import WORST, PatchDrift
from holdfast.parts.measures.dense.patch_spill import INSIDE, PatchSpill
from holdfast.parts.measures.dense.segment_kept import SegmentKept
from holdfast.parts.measures.shared.patches import bank
from holdfast.parts.objectives.segment_margin import SegmentMargin
from holdfast.parts.objectives.token_drift import TokenDrift
from holdfast.parts.objectives.token_margin import TokenMargin
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.covered import Covered, cover_patch
from holdfast.parts.observations.represented import Represented
from holdfast.parts.observations.shared.gallery import farthest, gallery
from holdfast.parts.threats.jpeg import Jpeg
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Mismatch, UnknownName, Unsupported
from holdfast.sources.data.arrays import Arrays
from holdfast.storage.run_folder import Store
from json_records import run_audit
from searched import Unsearched

SIDE, ROWS, COLUMNS = 3, 2, 4
EPS = 0.004


class Own(nn.Module):
    """Tokens that depend on nothing but their own patch: [B, P · dim], each a linear function of 3 x 3 pixels."""

    def __init__(self, dim: int = 1):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(1, dim, SIDE, SIDE, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).movedim(1, -1).flatten(1)


def local(dim: int = 1) -> Encoder:
    return Encoder(Own(dim), mean=0, std=1, grid=Grid(ROWS, COLUMNS, dim), origin={"normalisation": "a test"})


def pictures(count: int = 12) -> Tensor:
    """Even patches: their tokens are values in [0.3, 0.7] times the sum of the weights."""
    random = torch.Generator().manual_seed(1)
    values = 0.3 + 0.4 * torch.rand(count, 1, ROWS, COLUMNS, generator=random)
    return values.repeat_interleave(SIDE, 2).repeat_interleave(SIDE, 3)


# --- a change of one patch moves exactly this token --------------------------------------------------


@pytest.mark.parametrize("place", [(0, 0), (0, 3), (1, 0), (1, 2)])
def test_one_patch_moves_one_token_and_its_place_of_the_map(place: tuple[int, int], tmp_path: Path) -> None:
    encoder, x = local(dim=5), pictures(2)
    moved, (row, column) = x.clone(), place
    moved[:, :, row * SIDE : (row + 1) * SIDE, column * SIDE : (column + 1) * SIDE] += 0.1
    with torch.no_grad():
        before, after = encoder(x), encoder(moved)
    grid = encoder.grid
    assert grid is not None
    drift = grid.maps((grid.tokens(after) - grid.tokens(before)).norm(dim=-1))
    assert (drift > 0).nonzero().tolist() == [[0, *place], [1, *place]]
    # the picture of the report glows there and nowhere else
    results = {"reps@3": after} | farthest(after, before, moved - x, torch.arange(2))
    ids = ["first", "second"]
    album = Album(Store(tmp_path), "e", 0, (), 0, ids, None, before, 2, lambda position: x[position], grid)
    for entry in gallery(results, album):
        pixels = np.asarray(PIL.Image.open(tmp_path / entry["drift_map"]).convert("RGB")).astype(int)
        colour = np.argwhere(np.ptp(pixels, axis=2) > 3)
        assert set(map(tuple, colour // SIDE)) == {place}
        assert len(colour) == SIDE**2
    plain = Album(Store(tmp_path), "e", 0, (), 0, ids, None, before, 2, lambda position: x[position])
    assert all("drift_map" not in entry for entry in gallery(results, plain))


# --- searches reach worst cases that are known -----------------------------------------------------


def reach() -> float:
    """How far ℓ∞ ≤ ε moves each token: ε ||w||_1; no pixel is near 0 or 1."""
    return EPS * float(local().module.conv.weight.abs().sum())


def population() -> Tensor:
    """The tokens of all images in an order that no score depends on."""
    with torch.no_grad():
        return local()(pictures()).double()


def test_searches_reach_known_optima(tmp_path: Path) -> None:
    attack, ball = Apgd(60), Linf(EPS)
    tokens, r = population(), reach()
    drift = PatchDrift(attack, ball, bank=96, readouts=(60,))
    lost = PatchBreakaway(attack, ball, readouts=(60,))
    kept = SegmentKept(attack, ball, segments=2, readouts=(60,))
    plan = Plan(("it",), "arrays", (drift, lost, kept), (), images=12, attacked=12, batch_size=5)
    record = run_audit(plan, tmp_path, encoders={"it": local()}, source=Arrays(pictures()))
    assert record["failures"] == []
    scores = {name: m["scores"] for name, m in record["encoders"][0]["measures"].items()}
    image = torch.arange(12).repeat_interleave(tokens.shape[1])
    apart = (tokens.flatten()[:, None] - tokens.flatten()).abs()
    scale = float(apart[image[:, None] < image].median())
    assert scores["patch_drift"]["60 steps"]["value"] == pytest.approx(r / scale, rel=1e-4)
    assert scores["patch_drift"][WORST]["value"] == pytest.approx(r / scale, rel=1e-4)
    # a scalar token is lost where half the way to its nearest neighbour can be gone
    within = (tokens[:, :, None] - tokens[:, None]).abs()
    within += torch.where(torch.eye(tokens.shape[1], dtype=torch.bool), torch.inf, 0.0)
    sure = (within.amin(2) / 2 - r).abs() > 2e-5
    assert sure.all(), "a case that rounding decides"
    expected = (within.amin(2) / 2 < r).double().mean()
    assert 0.05 < expected < 0.95
    # no search finds more than there is; towards two rivals on both sides it may choose the farther one
    assert expected - 0.02 <= scores["patch_breakaway"]["60 steps"]["value"] <= expected + 1e-9
    # and leaves its segment where the middle between the two centres can be reached
    shares = []
    for row in tokens:
        centres, _ = patches.segments(row[:, None], 2)
        border = float(centres.mean())
        assert ((row - border).abs() - r).abs().min() > 2e-5
        shares.append(float(((row - border).abs() > r).double().mean()))
    assert scores["segment_kept"]["60 steps"]["value"] == pytest.approx(np.mean(shares), abs=1e-9)
    assert {s["n"] for name in scores for s in scores[name].values()} == {12}, "units are images"


@pytest.mark.parametrize("name", ["l2", "cosine"])
def test_margins_are_above_zero_exactly_where_patches_are_lost(name: str) -> None:
    random = torch.Generator().manual_seed(4)
    clean, moved = torch.randn(2, 3, 12, generator=random).double()
    objective = TokenMargin(dim=2, divergence=name)
    margins = objective.margins(clean)(moved)
    for i in range(3):
        one, other = moved[i].view(6, 2), clean[i].view(6, 2)
        apart, before = (
            pairwise_distances(a, other, metric="euclidean" if name == "l2" else name) for a in (one, other)
        )
        own, rival = apart.diagonal(), np.where(np.eye(6), np.inf, apart).min(1)
        assert ((margins[i] > 0).numpy() == (rival < own)).all()
        power = 2 if name == "l2" else 1  # the cosine is half a squared distance already
        gap = np.where(np.eye(6), np.inf, before).min(1) ** power
        gap = np.maximum(gap, 0.05 * gap.mean())
        np.testing.assert_allclose(margins[i], (own**power - rival**power) / gap, rtol=1e-6)
    at_rest = objective.margins(clean)(clean)
    assert ((at_rest < 0) & (at_rest > -1 - 1e-9)).all()
    assert float(at_rest.median()) == pytest.approx(-1)
    np.testing.assert_allclose(objective(moved, clean), margins.clamp_max(0.05).mean(1), rtol=1e-12)


@pytest.mark.parametrize(
    "objective", [TokenDrift(), TokenMargin(), SegmentMargin(segments=3)], ids=lambda o: type(o).__name__
)
def test_objectives_learn_the_grid_and_value_images_alone(objective: Objective) -> None:
    encoder = local(dim=2)
    x = pictures(4)
    with torch.no_grad():
        clean = encoder(x)
    trial = (x + 0.02 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))).clamp(0, 1)
    goal = objective.pursue(encoder, clean)
    with torch.no_grad():
        values, reps = goal(trial)
    bound = objective.of(encoder)
    torch.testing.assert_close(values, bound(reps, clean))
    for i in range(4):
        torch.testing.assert_close(bound(reps[i : i + 1], clean[i : i + 1])[0], values[i])
    for dim in (None, 3):
        with pytest.raises(Mismatch, match=f"dim={dim}"):
            type(objective)(dim=dim)(clean, clean)
    with pytest.raises(Unsupported, match="pool=none"):
        objective.of(Encoder(nn.Flatten(), mean=0, std=1, name="flat"))


# --- by loops, on given tokens ------------------------------------------------------------------------


@dataclass
class Given(Unsearched):
    """A subject whose tokens are given, [N, P, dim] and [M, P, dim]."""

    clean: Tensor
    moved: Tensor
    points: list[Tensor] = field(default_factory=list)
    grid: Grid | None = None
    seed: int = 0

    @property
    def encoder(self) -> Encoder:
        return Encoder(nn.Flatten(), mean=0, std=1, grid=self.grid or Grid(2, 3, self.clean.shape[2]), name="given")

    @property
    def population(self) -> int:
        return len(self.clean)

    @property
    def attacked(self) -> int:
        return len(self.moved)

    @property
    def ids(self) -> list[str]:
        return [str(i) for i in range(self.population)]

    @property
    def labels(self) -> None:
        return None

    has_training_set = False
    place = torch.tensor([0, 1, 2, 3, 4, 5])

    def batch(self, start: int, stop: int) -> Tensor:
        raise AssertionError("measures do not look at images")

    bank = fit_probe = refusal = batch

    def collect_points(self, ball: Ball) -> list[Tensor]:
        return [self.moved.flatten(1)[:, None].double(), *self.points]

    def read(self, observation: Observation) -> dict[str, Tensor]:
        if isinstance(observation, Clean):
            return {"reps": self.clean.flatten(1)}
        if isinstance(observation, Represented):
            return {"reps": self.moved.flatten(1)}
        if isinstance(observation, Covered):
            return {"reps": self.moved.flatten(1), "place": self.place}
        assert isinstance(observation, Attacked)
        return {f"reps@{step}": self.moved.flatten(1) for step in observation.steps}


N, M, P = 9, 6, 6
SHORT = {"attack": Pgd(4, 0.01), "readouts": (4,)}


def given(spread: float = 0.8, **others) -> Given:
    random = torch.Generator().manual_seed(3)
    clean = torch.randn(N, P, 2, generator=random)
    return Given(clean, clean[:M] + spread * torch.randn(M, P, 2, generator=random), **others)


def apart(a: Tensor, b: Tensor, name: str) -> float:
    a, b = a.double().numpy(), b.double().numpy()
    if name == "l2":
        return float(np.sqrt(((a - b) ** 2).sum()))
    return float(1 - a @ b / np.sqrt((a @ a) * (b @ b)))


@pytest.mark.parametrize("name", ["l2", "cosine"])
def test_breakaway_by_loops(name: str) -> None:
    subject = given(spread=0.5)
    points = subject.clean[:M] + 1.5 * torch.randn(M, P, 2, generator=torch.Generator().manual_seed(9))
    outside = torch.full((M, 1, P * 2), torch.nan).double()
    subject.points = [points.flatten(1)[:, None].double(), outside]
    table = PatchBreakaway(divergence=name, **SHORT).observe(subject)
    chosen = bank(subject, subject.clean, 2000)
    assert len(chosen.tokens) == N * P
    for i in range(M):
        within = 0
        for p in range(P):
            own = apart(subject.moved[i, p], subject.clean[i, p], name)
            within += any(apart(subject.moved[i, p], subject.clean[i, q], name) < own for q in range(P) if q != p)
        assert table["lost@4"][i] == pytest.approx(within / P)
        among = []
        for moved in (subject.moved, points):
            lost = 0
            for p in range(P):
                own = apart(moved[i, p], subject.clean[i, p], name)
                others = [subject.clean[j, q] for j in range(N) if j != i for q in range(P)]
                lost += any(apart(moved[i, p], other, name) < own for other in others)
            among.append(lost / P)
        assert table["others"][i] == pytest.approx(max(among))
    assert 0.2 < float(table["lost@4"].mean()) < float(table["others"].mean())


@pytest.mark.parametrize("name", ["l2", "cosine"])
def test_edits_are_counted_as_attacks_are(name: str) -> None:
    subject = given()
    edited = EditedPatchBreakaway(divergence=name, threats=(Jpeg(30), Jpeg(75))).observe(subject)
    attacked = PatchBreakaway(divergence=name, **SHORT).observe(subject)
    for column in ("lost@JPEG 30", "lost@JPEG 75", "lost"):
        assert torch.equal(edited[column], attacked["lost@4"]), list(edited)


def test_what_is_covered_stays_local_where_tokens_are(tmp_path: Path) -> None:
    """Tokens of their own patch spill nothing; those of a mean over the image spill evenly."""

    class Everywhere(Own):
        def forward(self, x: Tensor) -> Tensor:
            tokens = super().forward(x)
            return tokens.mean(1, keepdim=True).expand_as(tokens) + torch.arange(float(ROWS * COLUMNS))

    everywhere = Encoder(Everywhere(), mean=0, std=1, grid=Grid(ROWS, COLUMNS, 1))
    plan = Plan(("local", "all"), "arrays", (PatchSpill(),), (), images=12, attacked=10, batch_size=4)
    encoders = {"local": local(), "all": everywhere}
    record = run_audit(plan, tmp_path, encoders=encoders, source=Arrays(pictures()))
    assert record["failures"] == []
    own, even = (entry["measures"]["patch_spill"]["scores"] for entry in record["encoders"])
    assert own["outside"]["value"] == 0
    assert even["outside"]["value"] == pytest.approx(1 - 1 / (ROWS * COLUMNS), rel=1e-4)
    assert own[INSIDE]["value"] > 0
    assert record["encoders"][0]["passes"]["measures"] == {"forward": 12 + 10, "backward": 0, "bounds": 0}


def test_one_cell_of_the_image_is_covered() -> None:
    x = torch.rand(3, 2, 6, 12)
    grey = cover_patch(x, Grid(2, 4, 1), torch.tensor([0, 5, 7]))
    for image, (rows, columns) in enumerate([((0, 3), (0, 3)), ((3, 6), (3, 6)), ((3, 6), (9, 12))]):
        expected = x[image].clone()
        expected[:, slice(*rows), slice(*columns)] = 0.5
        assert torch.equal(grey[image], expected)
    with pytest.raises(Mismatch, match="9 × 4"):
        cover_patch(x, Grid(9, 4, 1), torch.tensor([0, 5, 7]))
    assert Covered(first=3).key() == Covered()


def test_spill_by_loops() -> None:
    subject = given()
    table = PatchSpill(first=M).observe(subject)
    for i in range(M):
        drifts = [apart(subject.moved[i, p], subject.clean[i, p], "l2") for p in range(P)]
        place = int(subject.place[i])
        assert table["spill"][i] == pytest.approx((sum(drifts) - drifts[place]) / sum(drifts), rel=1e-6)
        near = [p for p in range(P) if p != place and max(abs(p // 3 - place // 3), abs(p % 3 - place % 3)) == 1]
        ratio = float(table["away@1"][i] / table["away@0"][i])
        assert ratio == pytest.approx(np.mean([drifts[p] for p in near]) / drifts[place], rel=1e-5)


@pytest.mark.parametrize("name", ["l2", "cosine", "linf"])
def test_drift_by_loops(name: str) -> None:
    subject = given()
    table = PatchDrift(divergence=name, **SHORT).observe(subject)

    def far(a: Tensor, b: Tensor) -> float:
        return float((a - b).abs().max()) if name == "linf" else apart(a, b, name)

    pairs = [
        far(subject.clean[i, p], subject.clean[j, q])
        for i in range(N) for j in range(i + 1, N) for p in range(P) for q in range(P)
    ]  # fmt: skip
    scale = sorted(pairs)[(len(pairs) - 1) // 2]
    for i in range(M):
        drifts = [far(subject.moved[i, p], subject.clean[i, p]) / scale for p in range(P)]
        assert table["drift@4"][i] == pytest.approx(np.mean(drifts), rel=1e-5)
        assert table["worst@4"][i] == pytest.approx(max(drifts), rel=1e-5)


def test_patches_of_one_background_are_no_rivals() -> None:
    """Two patches of one token: to find either is no mistake, and a token near both is not lost."""
    clean = torch.tensor([[[0.0, 0.0], [0.0, 1e-6], [4.0, 0.0], [8.0, 0.0], [8.0, 4.0], [0.0, 9.0]]]).repeat(3, 1, 1)
    clean[1:] += 20
    moved = clean[:2].clone()
    moved[0, 0] = torch.tensor([0.0, 2e-6])  # nearer to its twin
    moved[0, 2] = torch.tensor([7.0, 0.0])
    table = PatchBreakaway(**SHORT).observe(Given(clean, moved))
    assert table["lost@4"].tolist() == [pytest.approx(1 / 6), 0.0]
    assert table["others"].tolist() == [0.0, 0.0], "patches of the image itself are none of others"
    # an image of one token everywhere has no answer, and is counted as such
    clean[0] = 5.0
    measure = PatchBreakaway(**SHORT)
    score = measure.score(measure.observe(Given(clean, moved)))["4 steps"]
    assert (score.n, score.value) == (1, 0.0)
    assert "undefined" in score.note


def test_ties_are_not_lost() -> None:
    clean = torch.zeros(2, 2, 1)
    clean[0, 1], clean[1] = 2.0, torch.tensor([[50.0], [90.0]])
    moved = clean.clone()
    moved[0, 0] = 1.0  # in the middle
    subject = Given(clean, moved, grid=Grid(1, 2, 1))
    assert PatchBreakaway(**SHORT).observe(subject)["lost@4"].tolist() == [0, 0]
    assert SegmentKept(segments=2, **SHORT).observe(subject)["kept@4"].tolist() == [1, 1]


def test_segments_by_hand() -> None:
    clean = torch.tensor([0.0, 0.2, 0.1, 5.0, 5.2, 9.0]).view(1, 6, 1).repeat(2, 1, 1)
    moved = clean.clone()
    moved[0, :, 0] = torch.tensor([0.4, 3.0, -7.0, 5.0, 7.2, 7.0])  # centres 0.1, 5.1, 9: the 2nd and 5th leave
    kept = SegmentKept(segments=3, **SHORT).observe(Given(clean, moved))["kept@4"]
    assert kept.tolist() == [pytest.approx(3 / 6), 1]  # 7.0 is nearer to 5.1 than to 9, too
    centres, own = patches.segments(clean[0], 3)
    assert centres.flatten().tolist() == pytest.approx([0.1, 5.1, 9.0])
    assert own.tolist() == [0, 0, 0, 1, 1, 2]
    flat = torch.zeros(1, 6, 1)
    measure = SegmentKept(**SHORT)
    table = measure.observe(Given(torch.cat([flat, clean]), torch.cat([flat, moved])))
    assert table["kept@4"].isnan().tolist() == [True, False, False]
    assert len(patches.segments(torch.tensor([[1.0], [1.0], [2.0]]), 3)[0]) == 2, "fewer different patches"
    with pytest.raises(BadValue, match="got 7"):
        SegmentKept(segments=7, **SHORT).observe(Given(clean, moved))
    with pytest.raises(BadValue, match="segments"):
        SegmentKept(segments=1, **SHORT).observe(Given(clean, moved))


def test_the_bank_takes_turns() -> None:
    subject = given()
    whole, few, tiny = (bank(subject, subject.clean, size) for size in (2000, 20, 4))
    assert sorted(whole.image.tolist()) == sorted(list(range(N)) * P)
    assert few.image.tolist() == [*range(N), *range(N), 0, 1], "one of each image, then a second one"
    assert tiny.image.tolist() == [0, 1, 2, 3]
    assert torch.equal(whole.tokens[:20], few.tokens)
    assert len(few.tokens.unique(dim=0)) == 20, "no patch twice"
    reseeded = bank(given(seed=1), subject.clean, 20)
    assert not torch.equal(reseeded.tokens, few.tokens)


# --- what measures share with their objectives, and what they refuse ---------------------------------


def test_objectives_compare_as_the_measure_does() -> None:
    assert SegmentKept(segments=7, divergence="cosine").objective == SegmentMargin(segments=7, divergence="cosine")
    assert PatchDrift(divergence="cosine").objective == TokenDrift(divergence="cosine")
    drift, lost = PatchDrift(), PatchBreakaway()
    shared = {o.key() for o in drift.observations()} & {o.key() for o in lost.observations()}
    assert len(shared) == 2, "clean representations, and one search for drift"
    for measure in (SegmentKept(segments=7), PatchBreakaway(divergence="cosine")):
        assert registry.build(registry.spec(measure)) == measure


@pytest.mark.parametrize("name", ["patch_breakaway", "segment_kept"])
def test_divergences_of_patches(name: str) -> None:
    with pytest.raises(UnknownName, match="l1"):
        registry.find("measures", name)(divergence="l1")


def test_an_encoder_of_vectors_has_no_patches(tmp_path: Path) -> None:
    flat = Encoder(nn.Flatten(), mean=0, std=1, name="flat")
    plan = Plan(("it",), "arrays", (PatchDrift(Pgd(3)),), (), images=12, attacked=10)
    record = run_audit(plan, tmp_path, encoders={"it": flat}, source=Arrays(pictures()))
    assert "expected an encoder of patches" in str(record["failures"])
    wrong = Encoder(nn.Flatten(), mean=0, std=1, grid=Grid(2, 2, 5), name="wrong")
    with pytest.raises(Mismatch, match="72"):
        wrong(pictures(1))


def test_scores_have_names_that_say_what_they_are() -> None:
    subject = given()
    drift = PatchDrift(**SHORT)
    assert list(drift.score(drift.observe(subject))) == [WORST, "4 steps"]
    lost = PatchBreakaway(**SHORT)
    assert list(lost.score(lost.observe(subject))) == [OTHERS, "4 steps"]
    assert len(lost.relies_on(OTHERS)) == 2
    assert lost.relies_on("4 steps") == lost.searches[:1]
