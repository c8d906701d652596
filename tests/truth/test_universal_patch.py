"""One patch for all images: the best of a linear classifier by hand, where failing images go, patches that transfer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from holdfast.auditing.plan import Plan
from holdfast.core import Encoder, Rng
from holdfast.numerics.statistics import clopper_pearson
from holdfast.parts.learners.given import Given, read, save
from holdfast.parts.learners.shared.learner import LearnedPerturbation
from holdfast.parts.learners.universal import Universal
from holdfast.parts.measures.probabilistic.universal_robustness import UniversalRobustness
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.patch import Patch
from holdfast.runtime.errors import BadData, Mismatch, Missing
from holdfast.sources.data.arrays import Arrays
from json_records import run_audit

COUNT, SHAPE = 90, (1, 3, 4)
W = torch.randn(12, generator=torch.Generator().manual_seed(2))
X = torch.rand(COUNT, *SHAPE, generator=torch.Generator().manual_seed(5))
LABELS = (torch.arange(COUNT) % 3 > 0).long()


class Shifted(nn.Module):
    """z = w · x; what that may lose until an image fails, see `event`, is each image's own."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ W[:, None]


AWAY = torch.linspace(0.05, 4, COUNT)[torch.randperm(COUNT, generator=torch.Generator().manual_seed(1))]
CLEAN = Shifted()(X)[:, 0]


def event(reps: Tensor, rows: Tensor) -> Tensor:
    """Image i fails where w · x' has moved against its class by more than `AWAY[i]`."""
    side = 2.0 * LABELS - 1
    return (
        -(side * AWAY)[rows, None] * side[rows, None] - side[rows, None] * (reps[..., 0] - CLEAN[rows, None])
    ).double()


def learn(patch: Patch, **options: Any) -> LearnedPerturbation:
    encoder = Encoder(Shifted(), mean=0, std=1)
    return Universal(batch=30, **options).learn(encoder, X, encoder(X), event, None, patch, Rng(0))


def least_standing(rows: slice, columns: slice) -> float:
    """The least share that stands under any one patch in a window: its pixels add any c between two ends to all."""
    weights = W.view(3, 4)[rows, columns].flatten()
    inside = X[..., rows, columns].flatten(1)
    ends = torch.linspace(float(weights.clamp_max(0).sum()), float(weights.clamp_min(0).sum()), 4001)
    moved = ends[:, None] - inside @ weights  # how far each image moves under each of them
    fails = (2.0 * LABELS - 1) * moved < -AWAY
    return 1 - float(fails.double().mean(1).max())


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("place", "at"),
    [("top-left", (0, 0)), ("bottom-right", (1, 2)), ((1.0, 0.5), (1, 1))],
    ids=["first", "last", "shares"],
)
def test_of_a_linear_classifier_the_best_patch_is_found(place, at: tuple[int, int]) -> None:
    learned = learn(Patch(share=1 / 3, place=place), epochs=30)
    best = least_standing(slice(at[0], at[0] + 2), slice(at[1], at[1] + 2))
    assert best < 0.8  # there is something to find
    assert best - 1 / COUNT < learned.held < best + 1.5 / COUNT
    pixels = learned.delta.nonzero()
    assert pixels[:, 1:].amin(0).tolist() == list(at)
    assert pixels[:, 1:].amax(0).tolist() == [at[0] + 1, at[1] + 1]


def test_one_patch_goes_to_the_best_place() -> None:
    every = [least_standing(slice(i, i + 2), slice(j, j + 2)) for i in range(2) for j in range(3)]
    learned = learn(Patch(share=1 / 3), epochs=20, restarts=2)
    assert min(every) - 1 / COUNT < learned.held < min(every) + 2 / COUNT
    assert min(every) < sorted(every)[2] - 2 / COUNT  # most places are worse


def trapped(targets: int) -> Tensor:
    """Images of some kinds that differ a little; one of each kind has a white corner: its kind with one is like it."""
    generator = torch.Generator().manual_seed(0)
    kinds = 0.5 + 0.1 * torch.rand(targets, 1, 5, 5, generator=generator)
    x = kinds[torch.arange(60) % targets] + 0.05 * torch.rand(60, 1, 5, 5, generator=generator)
    x[..., 0, 0] = 0.5
    x[-targets:, :, 0, 0] = 1
    return x


CORNER = Patch(share=0.04, place="top-left")
TRIES = Universal(epochs=3, restarts=20)
"""Where the corner is the same in all images but those with a white one, most starts see no slope."""


def audited(
    x: Tensor, folder: Path, measure: UniversalRobustness, scale: float = 1.0
) -> tuple[Mapping[str, Any], dict]:
    class Scaled(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            return scale * z.flatten(1)

    plan = Plan(("it",), "arrays", (measure,), (), images=len(x), attacked=20, batch_size=8)
    record = run_audit(plan, folder, encoders={"it": Encoder(Scaled(), mean=0, std=1)}, source=Arrays(x, name="x"))
    (entry,) = record["encoders"][0]["measures"].values()
    assert not entry["error"], entry["error"]
    return entry["scores"], record


SAME = "failing images that are taken for the same one"


def test_all_go_to_one_place_where_one_image_alone_is_like_the_patch(tmp_path: Path) -> None:
    scores, record = audited(trapped(1), tmp_path, UniversalRobustness(learner=TRIES, ball=CORNER))
    assert scores["images that hold"]["value"] <= 0.05  # the one like the patch holds, where it is among them
    same = scores[SAME]
    failing = round(20 * (1 - scores["images that hold"]["value"]))
    low, _ = clopper_pearson(failing, failing)
    assert (same["value"], same["n"], same["low"]) == (1, failing, pytest.approx(low))
    assert "exact" in same["interval"]
    assert "taken for 1 different image;" in same["note"]
    (entry,) = record["encoders"][0]["perturbations"]
    delta, ball = read(tmp_path / entry["file"])
    assert ball == CORNER
    assert float(delta[0, 0, 0]) > 0  # white
    assert int((delta != 0).sum()) == 1


def test_they_go_apart_where_several_are(tmp_path: Path) -> None:
    scores, _ = audited(trapped(6), tmp_path, UniversalRobustness(learner=TRIES, ball=CORNER))
    same = scores[SAME]
    assert 0.05 < same["value"] < 0.95
    assert f"taken for {int(same['note'].split()[4])} different images" in same["note"]
    assert 2 <= int(same["note"].split()[4]) <= 6


def test_what_holds_goes_nowhere(tmp_path: Path) -> None:
    scores, _ = audited(trapped(1), tmp_path, UniversalRobustness(ball=Linf(1e-4)))
    assert list(scores) == ["images learned from that hold", "images that hold"]


def test_a_patch_in_a_file_judges_another_encoder(tmp_path: Path) -> None:
    """As it judged its own where that is as easily misled, whatever the units of its representations."""
    x = trapped(1)
    own, record = audited(x, tmp_path / "own", UniversalRobustness(learner=TRIES, ball=CORNER))
    file = tmp_path / "own" / record["encoders"][0]["perturbations"][0]["file"]
    scores, record = audited(
        x, tmp_path / "other", UniversalRobustness(learner=Given(str(file)), ball=CORNER), scale=7.0
    )
    assert list(scores) == [SAME, "images that hold"]
    for end in ("value", "low", "high", "n"):
        assert scores["images that hold"][end] == own["images that hold"][end]
    assert scores[SAME]["value"] == 1
    assert scores[SAME]["low"] is None
    assert scores[SAME]["note"] == "they are taken for 1 different image"
    assert scores[SAME]["confidence"] == 0.95  # nothing was learned from which the image could be chosen before
    assert "given perturbation" in scores["images that hold"]["note"]
    assert sum(o["passes"]["backward"] for o in record["encoders"][0]["observations"]) == 0
    assert record["encoders"][0]["perturbations"][0]["learned_on"] == 0
    assert not record["encoders"][0].get("problems")


def given(path: Path, ball: Any = CORNER, x: Tensor | None = None) -> LearnedPerturbation:
    x = torch.zeros(0, 1, 5, 5) if x is None else x
    encoder = Encoder(nn.Flatten(), mean=0, std=1)
    return Given(str(path)).learn(encoder, x, torch.zeros(len(x), 25), event, None, ball, Rng(0))


def test_what_is_no_perturbation_for_these_images_is_refused(tmp_path: Path) -> None:
    delta, file = torch.zeros(1, 5, 5), tmp_path / "it.safetensors"
    delta[:, 0, 0] = 0.5
    save(delta, CORNER, file)
    assert torch.equal(given(file).delta, delta)
    assert torch.equal(given(file, Patch(share=0.04)).delta, delta)  # the corner is one of its places
    with pytest.raises(Mismatch, match="1 x 5 x 5"):
        given(file, x=torch.zeros(0, 3, 5, 5))
    with pytest.raises(Mismatch, match="patch"):
        given(file, Linf(0.5))
    save_file({"delta": delta}, file)  # of unknown origin
    assert torch.equal(given(file).delta, delta)
    with pytest.raises(Mismatch, match=r"≤ 0\.1"):
        given(file, Linf(0.1))
    for tensors in ({"other": delta}, {"delta": delta[0]}, {"delta": delta * torch.nan}, {"delta": delta.int()}):
        save_file(tensors, file)
        with pytest.raises(BadData, match="delta"):
            given(file)
    for described in ("{", '{"kind": "threats", "name": "pach"}', '{"kind": "threats", "name": "gamma"}'):
        save_file({"delta": delta}, file, {"ball": described})
        with pytest.raises(BadData):
            given(file)
    file.write_bytes(b"nothing")
    with pytest.raises(BadData):
        given(file)
    with pytest.raises(Missing, match="path="):
        given(tmp_path / "none")
    with pytest.raises(Missing, match="path="):
        Given().learn(Encoder(nn.Flatten(), mean=0, std=1), X, X.flatten(1), event, None, CORNER, Rng(0))
