"""The smallest change on which two builds disagree: known answers, sides without a gradient, the command, bad input."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from test_command_line import run
from torch import Tensor, nn

import holdfast
from holdfast.core import Encoder, Geometry, Rng, Shard
from holdfast.core.outside import Outside, Wanted
from holdfast.core.pair import Pair
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.divergences.dot import Dot
from holdfast.parts.divergences.hamming import Hamming
from holdfast.parts.divergences.l1 import L1
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.observations.disagreements import Disagreements
from holdfast.report.index_sentences import _disagree
from holdfast.runtime.errors import BadValue, Conflict, Mismatch, Unsupported
from holdfast.workflows.compare_index.attacked import Seen, _measure
from loopback import Said, serve

IMAGES = 20
PLAIN, SKEWED = torch.eye(2), torch.tensor([[1.0, 0.25], [0.1, 0.9]])


class Linear(nn.Module):
    def __init__(self, weights: Tensor):
        super().__init__()
        self.weights = nn.Parameter(weights)

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.weights.T


def white(weights: Tensor) -> Encoder:
    return Encoder(Linear(weights), mean=0, std=1, name="white")


def answer(weights: Tensor) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: x.reshape(len(x), -1) @ weights.numpy().T


def black(weights: Tensor) -> Encoder:
    """The same outside torch, without a gradient."""
    return Encoder(Outside(lambda: answer(weights), Wanted(), repr(weights).encode()), mean=0, std=1, name="black")


@pytest.fixture(scope="module")
def points() -> Tensor:
    """Images of two pixels, far from black and white."""
    return 0.3 + 0.4 * torch.rand(IMAGES, 1, 1, 2, generator=torch.Generator().manual_seed(0))


def breaking(x: Tensor, weights: Tensor) -> Tensor:
    """The largest ℓ∞ change with which each point stays the nearest one: its distance from the nearest bisector."""
    at, weights = (x.flatten(1) @ weights.T).double(), weights.double()
    square = torch.cdist(at, at).square()
    # ‖W δ‖² cancels on a bisector: 2 (f_k - f_i) · W δ = ‖f_k - f_i‖², and ‖δ‖∞ is least against an ℓ1 norm
    slopes = (2 * (at[None] - at[:, None]) @ weights).abs().sum(2)
    return (square / slopes).nan_to_num(torch.inf).amin(1)


def observe(old: Encoder, new: Encoder, x: Tensor, rows: slice = slice(None), **fields: Any) -> dict[str, Tensor]:
    clean = [encoder(x) for encoder in (old, new)]
    pair = Pair(old, new, (clean[0].shape[1], clean[1].shape[1]))
    ids = tuple(map(str, range(len(x))))[rows]
    places = torch.arange(len(x))
    shard = Shard(pair, x[rows], places[rows], Rng(0, ids=ids), torch.cat(clean, 1), others=lambda at: x[at])
    observation = Disagreements(**fields)
    seen = observation.run(shard)
    # Predicted, each side by itself, and for both
    gradients = pair.sides[0].differentiable, pair.sides[1].differentiable
    predicted = observation.passes_of_sides(gradients)
    for side, most in zip(pair.sides, predicted, strict=True):
        assert (most * len(ids)).forward >= side.passes.forward > 0.8 * (most * len(ids)).forward
        assert (most * len(ids)).backward >= side.passes.backward
        assert (side.passes.backward > 0) == side.differentiable
    assert pair.passes == pair.sides[0].passes + pair.sides[1].passes
    assert observation.passes_of(pair) == predicted[0] + predicted[1]
    return seen


def test_of_linear_encoders_the_smallest_change_is_that_of_the_first_that_breaks(points: Tensor) -> None:
    seen = observe(white(PLAIN), white(SKEWED), points)
    old, new = breaking(points, PLAIN), breaking(points, SKEWED)
    assert (old < new).any()
    assert (new < old).any()
    for found, least in ((seen["first"], old), (seen["second"], new), (seen["radius"], torch.minimum(old, new))):
        assert (found >= least * (1 - 1e-4)).all()  # nothing smaller than there is
        assert (found <= 1.03 * least).all()
    assert (seen["halfway"] >= seen["radius"] * 0.99).all()
    # Vectors of a linear map are parted by what the two matrices differ in, times a grey level at most
    assert (seen["cosine"] < 1).all()


@pytest.mark.parametrize(
    ("old", "new", "fields", "slack"),
    [
        (white, black, {}, 1.3),
        (black, white, {}, 1.3),
        (black, black, {"queries": 300}, 1.05),
    ],
)
def test_a_side_without_a_gradient_is_led_or_asked(
    points: Tensor, old: Callable, new: Callable, fields: dict, slack: float
) -> None:
    seen = observe(old(PLAIN), new(SKEWED), points, **fields)
    least = torch.minimum(breaking(points, PLAIN), breaking(points, SKEWED))
    assert (seen["radius"] >= least * (1 - 1e-4)).all()
    assert (seen["radius"] <= slack * least).all()


def test_what_was_found_makes_both_disagree_and_noise_does_so_less() -> None:
    """Beside a build that is rounded coarsely, in many dimensions."""
    x = torch.rand(30, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    weights = torch.randn(16, 108, generator=torch.Generator().manual_seed(2))

    class Coarse(Linear):
        def forward(self, x: Tensor) -> Tensor:
            vectors = super().forward(x)
            return vectors + (vectors.round() - vectors).detach()

    seen = observe(white(weights), Encoder(Coarse(weights), mean=0, std=1), x)
    found = seen["radius"].isfinite()
    assert found.float().mean() > 0.9
    assert (seen["radius"][found] >= torch.minimum(seen["first"], seen["second"])[found]).all()
    assert seen["noise"][found].mean() < 0.2


def test_builds_that_are_the_same_never_disagree(points: Tensor) -> None:
    seen = observe(white(SKEWED), white(SKEWED), points)
    assert seen["radius"].isinf().all()
    assert not seen["levels"].any()
    assert seen["noise"].isnan().all()
    assert (seen["first"] <= 1.03 * breaking(points, SKEWED)).all()
    torch.testing.assert_close(seen["cosine"], torch.ones(IMAGES).double())


def test_twins_are_not_told_apart(points: Tensor) -> None:
    """Of two copies of an image either may be the nearest one."""
    x = torch.cat([points, points[:4]])
    seen = observe(white(PLAIN), white(SKEWED), x)
    least = torch.minimum(breaking(points, PLAIN), breaking(points, SKEWED))
    assert (seen["radius"][:IMAGES] >= least * (1 - 1e-4)).all()
    assert (seen["radius"][IMAGES:] >= least[:4] * (1 - 1e-4)).all()


def test_results_do_not_depend_on_the_batch(points: Tensor) -> None:
    whole = observe(white(PLAIN), black(SKEWED), points)
    parts = [observe(white(PLAIN), black(SKEWED), points, rows) for rows in (slice(0, 7), slice(7, IMAGES))]
    for name, values in whole.items():
        torch.testing.assert_close(torch.cat([part[name] for part in parts]), values, equal_nan=True)


@pytest.mark.parametrize("divergence", [L2(), Cosine(), L1(), Dot(), Hamming()], ids=str)
def test_any_symmetric_divergence_is_judged_by_itself(divergence: Any) -> None:
    """What both answer is worked out again from the definition, on corners of smaller balls."""
    x = torch.rand(12, 1, 2, 3, generator=torch.Generator().manual_seed(3))
    weights = torch.randn(8, 6, generator=torch.Generator().manual_seed(4))
    other = weights + 0.2 * torch.randn(8, 6, generator=torch.Generator().manual_seed(5))
    seen = observe(white(weights), white(other), x, divergence=divergence, steps=20)
    banks = [(x.flatten(1) @ w.T).double() for w in (weights, other)]

    def unlike(at: Tensor) -> Tensor:
        """Where each is nearer to its own answer than to the other's, by brute force."""
        moved = [(at.flatten(1) @ w.T).double() for w in (weights, other)]
        apart = [torch.stack([divergence(row, bank) for row in reps]) for reps, bank in zip(moved, banks, strict=True)]
        one, two = (distances.argmin(1, keepdim=True) for distances in apart)
        clear = (
            apart[0].gather(1, one) < apart[0].gather(1, two),
            apart[1].gather(1, two) < apart[1].gather(1, one),
        )
        return (clear[0] & clear[1]).squeeze(1)

    # As images are, only products have nearest ones that are others
    already = unlike(x)
    assert ((seen["radius"] == 0) == already).all()
    assert already.any() == isinstance(divergence, Dot)
    # Half as large a change, at corners of the ball, seldom does what the search found none smaller for
    size = 0.5 * seen["radius"].where(seen["radius"].isfinite(), 0.0).view(-1, 1, 1, 1).float()
    corners = [torch.rand(x.shape, generator=torch.Generator().manual_seed(draw)) for draw in range(64)]
    missed = [unlike((x + size * (2 * corner - 1).sign()).clamp(0, 1)) & ~already for corner in corners]
    assert torch.stack(missed).any(0).float().mean() < 0.3


# --- through the whole comparison ---


def network(seed: int, noise: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 6, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(54, 12))
    torch.manual_seed(seed)
    with torch.no_grad():
        for weights in net.parameters():
            weights.add_(noise * torch.randn(weights.shape))
    return net.eval()


def build(net: nn.Module) -> Callable[[np.ndarray], np.ndarray]:
    def service(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return net(torch.from_numpy(x)).numpy()

    return service


@pytest.fixture(scope="module")
def pictures() -> Tensor:
    return torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def record(pictures: Tensor) -> Any:
    old = Encoder(network(1), mean=0, std=1, name="trained")
    return holdfast.compare_index(
        old,
        build(network(1, 0.02)),
        pictures,
        attacked=8,
        k=(1, 5),
        require=["disagreement_radius > 0.01/255"],
        quiet=True,
    )


def test_a_comparison_says_how_small_a_change_it_takes(record: Any) -> None:
    scores = record["measures"]["disagreement_radius"]["scores"]
    breaking = record["measures"]["breaking_radius"]["scores"]
    assert 0 < scores["median"]["value"] <= 1.001 * min(breaking["old"]["value"], breaking["new"]["value"])
    assert scores["median"]["n"] == 8
    assert scores["as they are"]["value"] == 0
    assert record["measures"]["cosine_attacked"]["scores"]["mean"]["value"] < 0.9999
    assert record["attacked"]["gradients"] == "old"
    (finding,) = record["findings"]
    assert finding["met"], finding
    shown = " ".join(str(record).split())
    assert "/255 [" in shown
    assert "makes the two find different images for half of 8 images; random noise of that size does for" in shown
    assert "to attack 8 images by gradients of the old one" in shown
    assert "> 0.01/255" in shown


def test_passes_of_attacks_are_predicted(record: Any) -> None:
    for side in record["attacked"]["passes"].values():
        assert 0.8 * side["predicted"]["forward"] < side["made"]["forward"] <= side["predicted"]["forward"]
    assert record["attacked"]["passes"]["new"]["made"]["backward"] == 0
    # The comparison itself takes what it took without attacks
    assert record["encoders"]["old"]["passes"]["made"]["forward"] == 24


def test_of_equal_builds_none_is_found_and_a_requirement_can_say_so(pictures: Tensor) -> None:
    old = Encoder(network(1), mean=0, std=1, name="trained")
    found = holdfast.compare_index(
        old,
        build(network(1)),
        pictures,
        attacked=24,
        same=True,
        k=(1,),
        require=["disagreement_radius.holds at 1/255 > 80 %", "cosine_attacked > 0.999"],
        quiet=True,
    )
    assert found["passed"], str(found)
    scores = found["measures"]["disagreement_radius"]["scores"]
    assert scores["holds at 1/255"]["value"] == 1
    assert "No change was found that makes the two find different images for half of 24 images" in " ".join(
        str(found).split()
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (np.inf, np.inf, "for 100 % [40, 100]."),
        (np.inf, 4 / 255, "; half are mistaken for another image by b alone from 4.00/255."),
        (
            3 / 255,
            4 / 255,
            "; half are mistaken for another image by a alone from 3.00/255 and by b alone from 4.00/255.",
        ),
    ],
)
def test_a_side_that_nothing_breaks_is_left_out_of_the_sentence(old: float, new: float, said: str) -> None:
    never, same = torch.full((4,), torch.inf).double(), torch.ones(4).double()
    seen = Seen(
        radius=never, halfway=never, first=old * same, second=new * same, noise=never * torch.nan, levels=0 * same,
        cosine=same,
    )  # fmt: skip
    sentence = re.sub(r"(\d/255) \[[^]]*\]", r"\1", _disagree(_measure(seen, same, "ℓ2 distance"), ("a", "b"), "image"))
    assert sentence.startswith(
        "No change was found that makes the two find different images for half of 4 images, and "
    )
    assert sentence.endswith(said)


def test_a_service_gets_as_many_images_as_are_counted(pictures: Tensor) -> None:
    net = network(1, 0.02)
    with serve(lambda asked: Said({"vectors": build(net)(asked.images).tolist()})) as service:
        spec = f"http://{service.host}/embed"
        found = holdfast.compare_index(
            spec, Encoder(network(1), mean=0, std=1), pictures, attacked=3, k=(1,), quiet=True
        )
        made = found["attacked"]["passes"]["old"]["made"]["forward"]
        counted = made + found["encoders"]["old"]["passes"]["made"]["forward"]
        # The same pixels are asked for once
        assert 0.6 * counted < service.sent <= counted
    assert found["attacked"]["gradients"] == "new"


def test_two_services_are_asked(pictures: Tensor) -> None:
    found = holdfast.compare_index(build(network(1)), build(network(1, 0.05)), pictures, attacked=3, k=(1,), quiet=True)
    assert found["attacked"]["gradients"] == "neither"
    assert found["attacked"]["passes"]["old"]["predicted"]["backward"] == 0
    assert "by queries alone" in " ".join(str(found).split())


def test_vectors_of_other_lengths_have_no_cosine_but_answers(pictures: Tensor) -> None:
    short = nn.Sequential(network(1), nn.Linear(12, 5)).eval()
    found = holdfast.compare_index(
        Encoder(network(1), mean=0, std=1), Encoder(short, mean=0, std=1), pictures, attacked=3, k=(1,), quiet=True
    )
    assert "cosine_attacked" not in found["measures"]
    assert found["measures"]["disagreement_radius"]["scores"]["median"]["n"] == 3


def test_an_attack_that_was_interrupted_goes_on(
    pictures: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask() -> Any:
        return holdfast.compare_index(
            Encoder(network(1), mean=0, std=1, name="old"),
            Encoder(network(1, 0.02), mean=0, std=1, name="new"),
            pictures,
            attacked=6,
            batch_size=3,
            k=(1,),
            out=tmp_path / "run",
            quiet=True,
        )

    run_one, made = Disagreements.run, list[int]()

    def interrupted(self: Disagreements, shard: Shard) -> dict[str, Tensor]:
        if made:
            raise KeyboardInterrupt
        made.append(len(shard.x))
        return run_one(self, shard)

    monkeypatch.setattr(Disagreements, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ask()
    monkeypatch.setattr(Disagreements, "run", run_one)
    first = ask()
    passes = first["attacked"]["passes"]["old"]
    assert passes["made"]["forward"] <= passes["predicted"]["forward"] / 2
    # All of it is stored by now, and says the same
    again = ask()
    assert again["attacked"]["passes"]["old"]["made"]["forward"] == 0
    assert again["measures"] == first["measures"]


def test_the_command_shows_it_and_keeps_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = "zoo:digits-simclr"
    asked = ("parity", spec, spec, "--data", "digits", "--images", "150", "--attacked", "3", "--quiet")
    status, printed, complaint = run(capsys, *asked, "--out", str(tmp_path / "it"), "--json")
    assert (status, complaint) == (0, "")
    assert json.loads(printed)["plan"]["attacked"] == 3
    assert "smallest change found on which both disagree" in (tmp_path / "it" / "report.html").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"attacked": -1}, "attacked: expected 0 or more, got -1"),
        ({"attacked": 2.5}, "attacked"),
        ({"attacked": 3, "require": ["disagreement_radius > 2"]}, "did you mean 2/255"),
    ],
)
def test_what_cannot_be_asked_is_refused(pictures: Tensor, options: dict, said: str) -> None:
    sides = Encoder(network(1), mean=0, std=1, name="a"), Encoder(network(1, 0.1), mean=0, std=1, name="b")
    with pytest.raises(BadValue) as error:
        holdfast.compare_index(*sides, pictures, k=(1,), quiet=True, **options)
    assert said in str(error.value)


def test_stored_vectors_cannot_be_attacked(pictures: Tensor) -> None:
    with pytest.raises(Conflict) as error:
        holdfast.compare_index(
            torch.randn(24, 12), Encoder(network(1), mean=0, std=1), pictures, attacked=3, k=(1,), quiet=True
        )
    assert "attacked: expected two encoders" in str(error.value)


def test_encoders_that_see_other_pixels_cannot_be_attacked(tmp_path: Path) -> None:
    for number in range(6):
        values = np.random.default_rng(number).integers(0, 256, (20, 30, 3), dtype=np.uint8)
        PIL.Image.fromarray(values).save(tmp_path / f"{number}.png")
    net = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten())
    sides = [Encoder(net, mean=0, std=1, geometry=Geometry((size, size)), name=str(size)) for size in (8, 12)]
    with pytest.raises(Mismatch) as error:
        holdfast.compare_index(*sides, str(tmp_path), attacked=2, k=(1,), quiet=True)
    assert "see the same pixels" in str(error.value)
    assert [side.passes.total for side in sides] == [0, 0]


def test_an_encoder_of_random_numbers_is_refused_before_any_pass(pictures: Tensor) -> None:
    sides = [Encoder(network(1), mean=0, std=1, name=name, draws=draws) for name, draws in (("a", None), ("b", 2))]
    with pytest.raises(Unsupported) as error:
        holdfast.compare_index(*sides, pictures, attacked=2, k=(1,), quiet=True)
    assert "expected one without random numbers" in str(error.value)
    assert [side.passes.total for side in sides] == [0, 0]
