"""Synthetic Gaussian classes through encoders whose answer is known: identity, rotations, a lost direction."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.core import Encoder, HoldfastError, Rng, Shard, registry
from holdfast.numerics.gaussian_classes import synbench
from holdfast.parts.observations import mixtures as module
from holdfast.parts.observations.image_covariance import ImageCovariance
from holdfast.parts.observations.mixtures import Mixtures
from holdfast.runtime.errors import BadValue, Missing, NotEnough, NotFinite, UnknownName
from json_records import run_audit

SMALL = Mixtures(epsilons=(0.0, 0.4, 0.8), samples=256, separations=(0.5, 1.0, 1.5, 2.0, 3.0))
SHAPE = (1, 4, 4)


class Linear(nn.Module):
    def __init__(self, matrix: Tensor):
        super().__init__()
        self.matrix = matrix

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.matrix.to(x).T


def encoder(matrix: Tensor) -> Encoder:
    return Encoder(Linear(matrix), mean=0.0, std=1.0)


def observe(mixtures: Mixtures, network: Encoder, shape=SHAPE, seed=0, read=None) -> dict[str, Tensor]:
    shards = [
        mixtures.run(Shard(network, torch.zeros(1, *shape), torch.tensor([row]), Rng(seed), None, read=read))
        for row in range(mixtures.images(0, 0))
    ]
    return {key: torch.cat([shard[key] for shard in shards]) for key in shards[0]}


def value(seen: dict[str, Tensor], start: float, at: int = 0) -> float:
    """The score by its definition."""
    ours = synbench.area(seen["accuracy"][:, :, at], seen["bound"][:, :, at], start).mean(1).sum()
    return float(ours / synbench.area(seen["reference_accuracy"][:, at], seen["reference_bound"][:, at], start).sum())


IDENTITY = torch.eye(16)


def test_the_identity_reaches_the_reference_as_images_grow_in_number() -> None:
    wide = replace(SMALL, separations=tuple(k / 10 for k in range(1, 50, 4)))
    values = [value(observe(replace(wide, samples=n), encoder(IDENTITY)), 0.6) for n in (32, 256, 4096)]
    assert values[0] < values[1] < values[2]
    assert abs(values[2] - 1) < 0.02


def test_every_robust_classifier_of_the_identity_is_the_same() -> None:
    seen = observe(replace(SMALL, samples=4096), encoder(IDENTITY))
    assert (seen["accuracy"].amax(2) - seen["accuracy"].amin(2)).max() < 0.02
    torch.testing.assert_close(seen["reference_accuracy"][:, 0], torch.special.ndtr(seen["s"]))


def test_an_encoder_that_drops_the_direction_scores_0() -> None:
    centred = torch.eye(16) - 1 / 16
    seen = observe(replace(SMALL, samples=1024), encoder(centred))
    assert value(seen, 0.6) == 0
    assert (seen["accuracy"] - 0.5).abs().max() < 0.07  # 30 shares of 1,024 coins: 4 standard deviations


@pytest.mark.parametrize("seed", [0, 1])
def test_rotations_and_scales_change_nothing(seed: int) -> None:
    rotation = torch.linalg.qr(torch.randn(16, 16, generator=torch.Generator().manual_seed(seed)).double()).Q.float()
    plain = observe(SMALL, encoder(IDENTITY))
    for matrix in (rotation, 1e-3 * rotation, 1e3 * rotation):
        turned = observe(SMALL, encoder(matrix))
        torch.testing.assert_close(turned["bound"], plain["bound"], rtol=1e-3, atol=1e-3)
        assert (turned["right"] - plain["right"]).abs().max() <= 1  # one image on the boundary, by rounding


def test_the_draws_depend_on_the_seed_and_on_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = observe(SMALL, encoder(IDENTITY))
    monkeypatch.setattr(module, "block_size", lambda x: 7)
    again = observe(SMALL, encoder(IDENTITY))
    torch.testing.assert_close(again["bound"], plain["bound"])
    fewer = observe(replace(SMALL, separations=(1.0, 3.0)), encoder(IDENTITY))
    torch.testing.assert_close(fewer["bound"], plain["bound"][[1, 4]])
    other = observe(SMALL, encoder(IDENTITY), seed=1)
    assert not torch.allclose(other["bound"], plain["bound"])


def test_both_halves_are_other_images() -> None:
    seen = observe(SMALL, encoder(IDENTITY))
    assert not torch.equal(seen["bound"][:, 0], seen["bound"][:, 1])


def test_the_images_are_those_of_the_paper() -> None:
    drawn: list[Tensor] = []

    class Spy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            drawn.append(x)
            return x.flatten(1)

    observe(replace(SMALL, samples=4096, separations=(3.0,)), Encoder(Spy(), mean=0.0, std=1.0))
    x = torch.cat(drawn).double()
    assert x.shape == (2 * 4096, 1, 4, 4)
    along = (x - 0.5).flatten(1).sum(1) / 4  # ·1/√d
    assert abs(float(x.mean()) - 0.5) < 0.02
    for sign in (-1, 1):
        some = along[along.sign() == sign]
        assert abs(float(some.mean()) - 3 * sign) < 0.07
        assert abs(float(some.std()) - 1) < 0.05
    assert float(x.min()) < -1


def test_clamped_images_stay_in_the_box_and_lose_something() -> None:
    plain = observe(replace(SMALL, scale=0.5), encoder(IDENTITY))
    clamped = observe(replace(SMALL, scale=0.5, clamp=True), encoder(IDENTITY))
    assert value(clamped, 0.6) < value(plain, 0.6)
    torch.testing.assert_close(clamped["reference_bound"], plain["reference_bound"])


def test_every_direction_has_its_rows() -> None:
    seen = observe(replace(SMALL, directions=3), encoder(IDENTITY))
    assert seen["direction"].tolist() == [0] * 5 + [1] * 5 + [2] * 5
    torch.testing.assert_close(seen["bound"][:5], observe(SMALL, encoder(IDENTITY))["bound"])
    assert value({key: rows[5:] for key, rows in seen.items()}, 0.6) > 0.7  # the identity loses no direction


def test_absolute_budgets_are_those_of_the_representation() -> None:
    seen = observe(replace(SMALL, budget="absolute", epsilons=(0.0, 10.0)), encoder(IDENTITY))
    assert seen["right"][:, :, 1].max() == 0  # beyond every half distance: nothing is left
    assert seen["right"][:, :, 0].min() > 0


def test_more_dimensions_than_images() -> None:
    network = encoder(torch.randn(200, 16, generator=torch.Generator().manual_seed(0)))
    plain = observe(replace(SMALL, samples=64), network)
    assert value(plain, 0.6) > 0.3  # 16 of 200 directions carry anything
    noisy = encoder(torch.eye(400))
    small = replace(SMALL, samples=64)
    none, shrunk = (
        value(observe(replace(small, shrinkage=how), noisy, (1, 20, 20)), 0.6) for how in ("none", "ledoit_wolf")
    )
    assert shrunk > none


def test_passes_are_counted_and_predicted() -> None:
    network = encoder(IDENTITY)
    observe(SMALL, network)
    assert network.passes == SMALL.passes * SMALL.images(0, 0)


class Lost(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) / 0.0


class Constant(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ones(len(x), 3)


class One(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1).sum(1, keepdim=True)


def test_odd_representations() -> None:
    with pytest.raises(NotFinite):
        observe(SMALL, Encoder(Lost(), mean=0.0, std=1.0))
    constant = observe(SMALL, Encoder(Constant(), mean=0.0, std=1.0))
    assert constant["right"].max() == 0
    assert constant["bound"].max() == 0
    one = observe(SMALL, Encoder(One(), mean=0.0, std=1.0))  # D = 1, and all there is to know
    assert value(one, 0.6) > 0.9


class Saturated(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        mean = x.flatten(1).mean(1, keepdim=True) - 0.5
        return torch.cat([mean.clamp(-0.3, 0.3), x.flatten(1)[:, :1], torch.full_like(mean, 1e7)], 1)


def test_classes_without_spread_are_told_apart_for_certain() -> None:
    seen = observe(replace(SMALL, separations=(1.0, 8.0, 9.0)), Encoder(Saturated(), mean=0.0, std=1.0))
    assert seen["accuracy"][0, :, 0].max() < 0.95
    assert seen["accuracy"][1:, :, 0].min() == 1  # with ε .4 the adversary reaches across the saturated feature
    assert (seen["bound"][1:, :, 0] - 1).abs().max() < 0.02
    wide = nn.Sequential(Saturated(), nn.Linear(3, 300))  # but with fewer images than dimensions it is chance
    torch.nn.init.normal_(wide[1].weight[:, :2], generator=torch.Generator().manual_seed(0))
    few = observe(replace(SMALL, samples=64, separations=(0.1, 0.2)), Encoder(wide, mean=0.0, std=1.0))
    assert few["accuracy"].max() < 0.8


@pytest.mark.parametrize(
    ("field", "wrong", "kind", "says"),
    [
        ("epsilons", (), BadValue, "epsilons"),
        ("epsilons", (0.2, 0.1), BadValue, "increasing"),
        ("epsilons", (-0.1,), BadValue, r"mixtures\.epsilons"),
        ("separations", (0.0, 1.0), BadValue, "separations"),
        ("samples", 4, BadValue, "samples"),
        ("directions", 0, BadValue, r"mixtures\.directions"),
        ("covariance", "image", UnknownName, r"'images'\?"),
        ("shrinkage", "ledoit", UnknownName, r"'ledoit_wolf'\?"),
        ("budget", "relativ", UnknownName, r"'relative'\?"),
        ("norm", 0.5, BadValue, "norm"),
        ("scale", 0.0, BadValue, r"mixtures\.scale"),
        ("estimated_from", 1, BadValue, "estimated_from"),
    ],
)
def test_bad_parameters(field: str, wrong: object, kind: type[HoldfastError], says: str) -> None:
    with pytest.raises(kind, match=says):
        replace(SMALL, **{field: wrong})


def test_the_covariance_of_images_and_their_mean() -> None:
    generator = torch.Generator().manual_seed(0)
    images = (0.5 + 0.1 * torch.randn(300, 16, generator=generator) @ torch.randn(16, 16, generator=generator)).clamp(
        0, 1
    )
    images = images.view(-1, *SHAPE)
    about = ImageCovariance(300)
    seen = about.run(Shard(encoder(IDENTITY), images, torch.arange(300), Rng(0), None))
    torch.testing.assert_close(seen["mean"].double(), images.flatten(1).double().mean(0), rtol=1e-4, atol=1e-4)
    domain = replace(SMALL, covariance="images", estimated_from=300, samples=4096)
    found = observe(domain, encoder(IDENTITY), read=lambda observation: {about: seen}[observation])
    best = torch.special.ndtr(found["s"])[:, None].expand(-1, 3)  # along a principal component no ε costs anything
    torch.testing.assert_close(found["reference_accuracy"], best)
    torch.testing.assert_close(found["accuracy"].mean(1), found["reference_accuracy"], rtol=0, atol=0.03)
    assert all(abs(value(found, 0.6, at) - 1) < 0.1 for at in range(3))  # the identity loses nothing, whatever ε
    component = torch.linalg.eigh(images.flatten(1).double().T.cov()).eigenvectors[:, -1].float()
    without = torch.eye(16) - torch.outer(component, component)
    lost = observe(domain, encoder(without), read=lambda observation: {about: seen}[observation])
    assert value(lost, 0.6) == 0
    with pytest.raises(NotEnough, match="got 17"):
        observe(replace(domain, directions=17), encoder(IDENTITY), read=lambda observation: seen)


@pytest.mark.slow
def test_an_audit_without_data(tmp_path: Path) -> None:
    settings = ["synbench.mixtures.samples=64", "synbench.mixtures.separations=[1.0, 2.0, 3.0]"]
    plan = make_plan(AuditRequest(["zoo:digits-simclr"], None, profile="synbench", settings=settings))
    record = run_audit(plan, tmp_path)
    assert record["failures"] == []
    (row,) = record["encoders"]
    assert row["measures"]["synbench"]["scores"]
    (seen,) = [o for o in row["observations"] if o["part"]["name"] == "mixtures"]
    assert seen["passes"] == seen["predicted"] == {"forward": 3 * 2 * 64, "backward": 0, "bounds": 0}
    again = run_audit(plan, tmp_path)
    assert again["run"]["resumed_shards"] >= 3
    assert again["encoders"][0]["measures"] == row["measures"] | {
        "synbench": row["measures"]["synbench"] | {"seconds": again["encoders"][0]["measures"]["synbench"]["seconds"]}
    }


def test_measures_of_images_need_data() -> None:
    with pytest.raises(Missing, match="breakaway_risk"):
        make_plan(
            AuditRequest(["zoo:digits-simclr"], None, measures=[{"name": "breakaway_risk"}, {"name": "synbench"}])
        )
    settings = ["synbench.mixtures.covariance=images"]
    with pytest.raises(Missing, match="synbench:"):
        make_plan(AuditRequest(["zoo:digits-simclr"], None, profile="synbench", settings=settings))


@pytest.mark.slow
def test_balls_of_the_largest_coordinate_in_an_audit(tmp_path: Path) -> None:
    small = [
        "synbench.mixtures.samples=64",
        "synbench.mixtures.separations=[2.0]",
        "synbench.mixtures.epsilons=[0, 0.4]",
    ]
    for number, infinity in enumerate(("inf", "Infinity")):
        plan = make_plan(
            AuditRequest(
                ["zoo:digits-simclr"],
                None,
                profile="synbench",
                settings=[*small, f"synbench.mixtures.norm={infinity}"],
            )
        )
        record = run_audit(plan, tmp_path / str(number))
        assert record["failures"] == []
        (part,) = record["plan"]["measures"]
        assert part["mixtures"]["norm"] == "inf"
        assert registry.build(part) == plan.measures[0]
