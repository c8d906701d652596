"""The ball of an audit that names no ε: what is usual for the images; and what a radius means on them."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch

import holdfast
from holdfast.auditing.balls import DIGITS, PHOTOS, SMALL, describe_balls, in_words, kind_of, usual_ball
from holdfast.auditing.plan_file import make_plan, plan_from
from holdfast.auditing.request import AuditRequest
from holdfast.core import HoldfastError, ImageSource, registry
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.measures.neighbours.breaking_radius import BreakingRadius
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Missing, UnknownName
from holdfast.sources.data.arrays import Arrays


def balls(data: str | None, source: ImageSource | None = None, **options) -> set:
    """The balls in which the drift of some images is asked for."""
    plan = make_plan(AuditRequest(["zoo:digits-simclr"], data, measures=["breakaway_risk"], **options), source)
    return {measure.ball for measure in plan.measures if isinstance(measure, BreakawayRisk)}


@pytest.mark.parametrize(
    ("shape", "kind", "linf", "l2"),
    [
        ((1, 8, 8), DIGITS, 0.1, 0.43),
        ((1, 28, 28), DIGITS, 0.1, 1.5),
        ((3, 32, 32), SMALL, 8 / 255, 0.5),
        ((3, 64, 64), PHOTOS, 4 / 255, 0.86),
        ((1, 224, 224), PHOTOS, 4 / 255, 1.7),
        ((3, 224, 224), PHOTOS, 4 / 255, 3.0),
        (None, SMALL, 8 / 255, 0.5),
    ],
)
def test_images_decide_the_usual_ball(shape, kind, linf: float, l2: float) -> None:
    assert kind_of(shape) is kind
    assert usual_ball("linf", shape) == Linf(linf)
    assert usual_ball("l2", shape) == L2(l2)


def test_every_pixel_may_move_as_far_in_images_of_any_size() -> None:
    for shape in ((1, 8, 8), (1, 20, 30), (3, 100, 64)):
        kind = kind_of(shape)
        levels = [usual_ball("l2", at).radius / L2(1.0).even(at) for at in (shape, kind.shape)]
        assert levels[0] == pytest.approx(levels[1], rel=0.05)


def pictures(folder: Path, side: int, mode: str) -> str:
    for number in range(2):
        pixels = np.random.default_rng(number).integers(0, 255, (side, side + 10, 3), dtype=np.uint8)
        PIL.Image.fromarray(pixels).convert(mode).save(folder / f"{number}.png")
    return str(folder)


@pytest.mark.parametrize(
    ("side", "mode", "eps"), [(20, "L", 0.1), (20, "RGB", 8 / 255), (64, "RGB", 4 / 255), (300, "L", 4 / 255)]
)
def test_a_plan_looks_at_its_images(side: int, mode: str, eps: float, tmp_path: Path) -> None:
    data = pictures(tmp_path, side, mode)
    assert balls(data) == {Linf(eps)}
    assert balls(f"{data}?size=16&channels=1") == {Linf(0.1)}
    (drawn,) = balls(data, norm="l2")
    assert drawn == usual_ball("l2", (3 if mode == "RGB" else 1, min(side, 224), min(side + 10, 224)))


def test_who_names_a_radius_gets_it() -> None:
    assert balls("digits", eps="4/255") == balls("digits", eps=4 / 255) == {Linf(4 / 255)}
    assert balls("nowhere at all", eps=0.2, norm="l2") == {L2(0.2)}  # images are not opened for it
    assert balls("gaussian") == {Linf(8 / 255)}  # which have no size before there is an encoder
    source = Arrays(torch.zeros(4, 3, 80, 80), name="zeros")
    assert balls("open already", source=source) == {Linf(4 / 255)}


def test_a_papers_profile_keeps_the_papers_ball(tmp_path: Path) -> None:
    def radii(**options) -> set[float]:
        plan = make_plan(AuditRequest(["zoo:digits-simclr"], "digits", **options))
        return {registry.spec(measure)["ball"]["radius"] for measure in plan.measures}

    assert radii(profile="paper") == {0.05, 0.1}
    assert radii(profile="paper", eps=0.2) == {0.2, 0.4}
    assert radii(profile="paper", norm="l2") == {0.43, 0.86}  # of which its paper says nothing
    text = 'description = "x"\nimages = 9\nattacked = 4\nnorm = "l2"\nmeasures = ["breakaway_risk"]\n'
    (tmp_path / "own.toml").write_text(text + 'eps = "3/2"')
    assert radii(profile=str(tmp_path / "own.toml")) == {1.5}
    (tmp_path / "own.toml").write_text(text)
    assert radii(profile=str(tmp_path / "own.toml")) == {0.43}


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"eps": 0.0}, BadValue, r"got 0\.0$"),
        ({"eps": -0.1}, BadValue, r"-0\.1"),
        ({"eps": float("nan")}, BadValue, r"got nan$"),
        ({"eps": "4/0"}, BadValue, "eps"),
        ({"eps": 4.0}, BadValue, "4/255"),
        ({"eps": 300.0}, BadValue, r"got 300.0$"),
        ({"norm": "lnf"}, UnknownName, r"'linf'\?"),
        ({"norm": "gamma"}, BadValue, "gamma"),
        ({"profile": "quikc"}, UnknownName, r"'quick'\?"),
    ],
)
def test_what_is_no_ball_gives_no_number(options: dict, kind: type[HoldfastError], message: str) -> None:
    with pytest.raises(kind, match=message):
        plan_from({"encoders": ["zoo:digits-simclr"], "data": "digits", "profile": "quick"} | options, "plan")


def test_a_norm_of_which_nobody_knows_a_radius_needs_one() -> None:
    with pytest.raises(Missing, match="l7"):
        usual_ball("l7", (1, 8, 8))


def test_a_ball_is_said_in_255ths() -> None:
    words = in_words(Linf(4 / 255), (3, 224, 224))
    assert words == "every pixel may change by up to 4/255 (ε in ℓ∞, the default for photos)"
    assert in_words(Linf(0.05), (3, 224, 224)).endswith("12.8/255 (ε in ℓ∞, 3.2 times the default for photos, 4/255)")
    assert in_words(L2(3.0), (3, 224, 224)).endswith(": like a change of 1.97/255 in each pixel of 224 x 224")
    assert in_words(L2(1.0), None).startswith("ε 1 in ℓ2: ")


@pytest.mark.parametrize(
    ("radius", "written"),
    [(1 / 255, "1/255"), (0.0157, "4/255"), (0.2, "0.2"), (0.05, "0.05"), (3.0, "3"), (1e-9, "1e-09")],
)
def test_radii_are_written_as_people_do(radius: float, written: str) -> None:
    assert L2(radius).radius_text == written


def test_a_radius_that_nothing_reads_is_not_told() -> None:
    assert describe_balls([BreakingRadius()], (1, 8, 8)) == []
    assert len(describe_balls([BreakingRadius(), BreakawayRisk(), BreakawayRisk(ball=Linf(0.1))], (1, 8, 8))) == 2


def test_the_record_says_what_its_ball_is() -> None:
    record = holdfast.audit(
        "zoo:digits-simclr", "digits", measures="cosine_to_self", profile="quick", images=4, budget="none", quiet=True
    )
    (measure,) = record.data["plan"]["measures"]
    assert measure["ball"]["radius"] == 0.1
    assert record.data["data"]["balls"] == [in_words(Linf(0.1), (1, 8, 8))]
    assert "the default for small grey images" in " ".join(str(record).split())


@pytest.mark.parametrize(
    ("norm", "ball"),
    [
        ("L2", "l2"), ("ℓ2", "l2"), ("2", "l2"), (2, "l2"), (2.0, "l2"), ("Linf", "linf"), ("L_inf", "linf"),
        ("inf", "linf"), (float("inf"), "linf"), ("ℓ∞", "linf"), (np.inf, "linf"), ("Patch", "patch"),
    ],
)  # fmt: skip
def test_norms_are_taken_in_their_usual_spellings(norm: str | float, ball: str) -> None:
    asked = {"measures": ("breakaway_risk",), "eps": 0.1}
    plan, plain = (make_plan(AuditRequest(("zoo:digits-simclr",), "digits", norm=n, **asked)) for n in (norm, ball))
    assert plan.measures == plain.measures


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"norm": True}, "norm: expected a name such as linf"),
        ({"norm": [2]}, "norm: expected a name such as linf"),
        ({"norm": 1}, "unknown norm 'l1'"),
        ({"norm": "L3"}, "l2, linf"),
        ({"device": "gpu"}, "expected cpu, cuda, cuda:1 or mps, got 'gpu'; a GPU is cuda"),
    ],
)
def test_what_is_no_norm_and_no_device_is_refused(asked, said: str) -> None:
    with pytest.raises(HoldfastError) as error:
        holdfast.audit("zoo:digits-simclr", "digits", **asked)
    assert said in str(error.value)
