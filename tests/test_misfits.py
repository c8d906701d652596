"""One entry of a list that does not fit is left out by name, and the rest is what it would be without that entry."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch import nn

import holdfast
from holdfast.auditing.misfits import drop_misfits
from holdfast.core import Attack, Corruption, Encoder, Event, Failure, Geometry, Measure, Shard, registry
from holdfast.numerics.rng import Rng
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.objectives.class_margin import ClassMargin
from holdfast.parts.objectives.cross_entropy import CrossEntropy
from holdfast.parts.threats.crop import Crop
from holdfast.parts.threats.edit import Edit
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.global_shuffle import GlobalShuffle
from holdfast.parts.threats.hue import Hue
from holdfast.parts.threats.imagenet_c import ImagenetC
from holdfast.parts.threats.jpeg import Jpeg
from holdfast.report.verdict import list_omissions

N = 24


@dataclass(frozen=True)
class Refusing(Corruption):
    """A corruption of a user's own that raises whatever it likes for images of twelve pixels."""

    strength: float = 0.1

    @property
    def title(self) -> str:
        return f"refusing {self.strength:g}"

    def sample(self, x: torch.Tensor, rng: Rng) -> torch.Tensor:
        if x.shape[-1] == 12 and self.strength > 0.2:
            raise ValueError("cannot be done")
        return (x * (1 - self.strength)).clamp(0, 1)


@pytest.fixture(autouse=True)
def _own(own_parts_forgotten: None) -> None:
    registry.register("threats")(Refusing)


class Network(nn.Module):
    """Linear; detached, as a service or a quantised network is, or not."""

    def __init__(self, shape: tuple[int, ...], closed: bool = False):
        super().__init__()
        self.closed, self.layer = closed, nn.Linear(int(np.prod(shape)), 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer((x.detach() if self.closed else x).flatten(1))


def audit(measure: Any, shape: tuple[int, ...] = (3, 12, 12), closed: bool = False, **options: Any) -> Any:
    torch.manual_seed(0)
    images = torch.rand(N, *shape, generator=torch.Generator().manual_seed(1))
    few: dict[str, Any] = {"mean": 0, "std": 1, "images": N, "attacked": 8, "budget": "none", "quiet": True}
    labels = [number % 3 for number in range(N)]
    return holdfast.audit(Network(shape, closed), images, labels=labels, measures=measure, **few | options)


def part(name: str, **parameters: Any) -> Measure:
    return registry.part("measures", name, **parameters)


def scores(record: Any) -> dict[str, Any]:
    (measure,) = record.data["encoders"][0]["measures"].values()
    assert measure["error"] is None
    return {name: (score["value"], score["low"], score["high"]) for name, score in measure["scores"].items()}


THREATS = (Gamma(0.5), Hue(20.0), Gamma(2.0))
PAIRED = {"attacks": (Pgd(2), Square(20)), "objectives": (CrossEntropy(), ClassMargin())}

CASES: dict[str, tuple[Measure, Measure, dict[str, Any], set[str]]] = {
    name: (part(name, threats=THREATS), part(name, threats=THREATS[::2]), {"shape": (1, 12, 12)}, {"hue"})
    for name in ("alignment", "corruption_drift", "neighbour_consistency", "edited_retrieval", "corrupted_accuracy",
                 "relative_drop", "edited_matching")
} | {
    "tiny images": (
        part("corruption_drift", threats=(ImagenetC("glass_blur", 3), ImagenetC("contrast", 1), GlobalShuffle(grid=4))),
        part("corruption_drift", threats=(ImagenetC("contrast", 1),)),
        {"shape": (3, 2, 2)},
        {"glass blur 3", "G4x4"},
    ),
    "an ensemble of attacks": (
        part("breakaway_risk", attack=Ensemble((Pgd(2), Square(20)))),
        part("breakaway_risk", attack=Ensemble((Square(20),))),
        {"closed": True},
        {"pgd"},
    ),
    "attacks and their objectives": (
        part("robust_accuracy", **PAIRED),
        part("robust_accuracy", attacks=(Square(20),), objectives=(ClassMargin(),)),
        {"closed": True},
        {"pgd, cross_entropy"},
    ),
    "k": (part("edited_retrieval", k=(1, 5, 100)), part("edited_retrieval", k=(1, 5)), {}, {"k 100"}),
    "shots": (
        part("few_shot_accuracy", shots=(1, 2, 1000), draws=2),
        part("few_shot_accuracy", shots=(1, 2), draws=2),
        {},
        {"shots 1000"},
    ),
    "read-outs": (
        part("breakaway_risk", attack=Pgd(2), readouts=(1, 2, 30)),
        part("breakaway_risk", attack=Pgd(2), readouts=(1, 2)),
        {},
        {"read-out 30"},
    ),
}  # fmt: skip


@pytest.mark.sweep(3)
@pytest.mark.parametrize("case", CASES)
def test_the_rest_is_what_it_is_without(case: str) -> None:
    check(*CASES[case])


@pytest.mark.slow
def test_edits_are_left_out_of_pairs_too() -> None:
    edits = (Edit(Jpeg(95), Jpeg(10)), Edit(Refusing(0.1), Refusing(0.9)), Edit(Crop(0.95), Crop(0.5)))
    few: dict[str, Any] = {"strengths": 3, "halvings": 1, "harmless": 1.0}
    whole, rest = (part("breaking_edit", edits=kept, **few) for kept in (edits, edits[::2]))
    assert scores(audit(rest))["worst pair"][0] is not None
    check(whole, rest, {}, {"refusing 0.1 to 0.9"})


def check(whole: Measure, rest: Measure, options: dict[str, Any], names: set[str]) -> None:
    record, plain = audit(whole, **options), audit(rest, **options)
    (entry,) = record.data["encoders"][0]["measures"].values()
    assert set(entry["left_out"]) == names
    assert scores(record) == scores(plain)
    headline = entry["scores"][entry["headline"]]
    assert all(f"“{name}”" in headline["note"] for name in names)
    assert len(list_omissions(record.run.record)) == len(names)
    assert all(any(why in failure for failure in record.failures) for why in entry["left_out"].values())
    assert all(name in " ".join(str(record).split()) for name in names)


@dataclass(frozen=True)
class Unbound(Failure):
    """A failure of a user's own that cannot be bound to any image."""

    @property
    def title(self) -> str:
        return "unbound"

    def bind(self, shard: Shard) -> Event:
        raise ValueError("cannot be bound")


def test_what_serves_several_measures_is_lost_for_those_alone_for_which_it_fails() -> None:
    """Both read one stream of draws, in which both questions are asked."""
    registry.register("failures")(Unbound)
    nearest, unbound = part("probabilistic_robustness"), part("probabilistic_robustness", failure=Unbound())
    record, plain = audit([unbound, nearest]), audit(nearest)
    lost, kept = record.data["encoders"][0]["measures"].values()
    assert "cannot be bound" in lost["error"]
    assert (lost["error_code"], kept["error"], kept["error_code"]) == ("failed", None, None)
    values = {name: score["value"] for name, score in kept["scores"].items()}
    assert values == {name: value for name, (value, *_) in scores(plain).items()}
    observed = [o["passes"]["forward"] for o in record.data["encoders"][0]["observations"]]
    assert observed == [o["passes"]["forward"] for o in plain.data["encoders"][0]["observations"]], "and it is counted"


def test_a_mean_says_over_how_many() -> None:
    record = audit(part("alignment", threats=THREATS), shape=(1, 12, 12))
    entry = record.data["encoders"][0]["measures"]["alignment"]
    notes = {name: score["note"] for name, score in entry["scores"].items()}
    assert notes["average"].startswith("1 of 3 left out: “hue”")
    assert not any("left out" in note for name, note in notes.items() if name != "average")


def test_a_measure_of_which_nothing_fits_fails_and_the_others_are_kept() -> None:
    record = audit([part("alignment", threats=(Hue(20.0),)), "cosine_to_self[attack=pgd[steps=2]]"], shape=(1, 12, 12))
    alignment, cosine = record.data["encoders"][0]["measures"].values()
    assert (alignment["error"][:4], alignment["error_code"]) == ("hue:", "unsupported")
    assert alignment["left_out"] == {}
    assert cosine["scores"]


def test_means_over_other_lists_are_not_compared(tmp_path: Path) -> None:
    """Of one encoder that sees colours and one that does not, hue befalls one alone."""
    for number in range(N):
        values = np.random.default_rng(number).integers(0, 256, (12, 12, 3), dtype=np.uint8)
        PIL.Image.fromarray(values).save(tmp_path / f"{number}.png")
    torch.manual_seed(0)
    encoders = [
        Encoder(Network((channels, 12, 12)), mean=0, std=1, name=name, geometry=Geometry((12, 12), channels, 12))
        for name, channels in (("grey", 1), ("colours", 3))
    ]
    own = Hue(20.0, resolution="encoder") if hasattr(Hue, "resolution") else Hue(20.0)
    record = holdfast.audit(
        encoders, tmp_path, images=N, attacked=8, budget="none", quiet=True,
        measures=[part("alignment", threats=(Gamma(0.5), own, Gamma(2.0))), "uniformity"],
    )  # fmt: skip
    left = [encoder["measures"]["alignment"]["left_out"] for encoder in record.data["encoders"]]
    assert [set(each) for each in left] == [{"hue"}, set()]
    assert record.data["comparison"]["alignment"] == {"best": None, "pairs": [], "charts": []}
    assert any("comparison of alignment" in failure for failure in record.failures)
    assert record.data["comparison"]["uniformity"]["pairs"]
    (line,) = list_omissions(record.run.record)
    assert line.startswith("Alignment for grey without “hue”: ")


def test_only_lists_are_shortened() -> None:
    """What is no list of things that can stand alone stays whole; lists that belong together are shortened together."""

    def without_gradients(measure: Any) -> str:
        return "no gradient" if any(attack.passes.backward for attack in measure.attacks) else ""

    found = drop_misfits(part("robust_accuracy", **PAIRED), without_gradients)
    assert found is not None
    assert (found.part.attacks, found.part.objectives) == ((Square(20),), (ClassMargin(),))
    assert (found.left_out, found.kept) == ({"pgd, cross_entropy": "no gradient"}, ("square, class_margin",))
    assert drop_misfits(part("robust_accuracy", **PAIRED), lambda measure: "never") is None
    assert drop_misfits(part("impersonation_rate"), lambda measure: "never") is None

    def other(attack: Attack) -> str:
        return "twin" if attack.members[0] == Apgd(3) else ""

    twins = part("breakaway_risk", attack=Ensemble((Apgd(3), Square(9), Square(9))))
    found = drop_misfits(twins, lambda measure: other(measure.attack))
    assert found is not None
    assert found.kept == ("square", "square (2)")
