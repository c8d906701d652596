"""Copies: which images show one picture and which do not, and that each picture counts once in scores."""

import io
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from holdfast.comparison.shared_images import Side
from holdfast.core import Measure, Score, Table
from holdfast.numerics import statistics
from holdfast.numerics.geometry.copies import copies, shrink_to_grey, steps_for
from holdfast.numerics.geometry.ranking import first_without
from holdfast.numerics.statistics.copies import firsts, rows_of_pictures, score_pictures
from holdfast.numerics.statistics.statistic import Mean, Share, Statistic
from holdfast.parts.divergences.l2 import L2
from holdfast.sources.data import open_images
from holdfast.storage.record import MeasureEntry


def first_of(images: Tensor) -> list[int]:
    """The first image of each one's picture."""
    return copies(shrink_to_grey(images), steps_for(tuple(images.shape[1:]))).tolist()  # pyright: ignore[reportArgumentType]


@pytest.fixture(scope="module")
def digits() -> Tensor:
    images = open_images("digits")
    return torch.as_tensor(images.batch(0, len(images))).float()


def pictures(name: str, digits: Tensor) -> Tensor:
    """Ten pictures: small and grey, or large, in colour and soft."""
    if name == "digits":
        return digits[:10]
    random = np.random.default_rng(0)
    soft = [
        PIL.Image.fromarray(random.integers(0, 256, (7, 7, 3), dtype=np.uint8)).resize(
            (64, 64), PIL.Image.Resampling.BICUBIC
        )
        for _ in range(10)
    ]
    return torch.from_numpy(np.stack(soft)).permute(0, 3, 1, 2) / 255


def noise(images: Tensor, levels: int) -> Tensor:
    random = torch.Generator().manual_seed(levels)
    return (images + torch.randint(-levels, levels + 1, images.shape, generator=random) / 255).clamp(0, 1)


def resaved(images: Tensor, change) -> Tensor:
    """Images that Pillow has changed."""
    pixels = (images * 255).round().byte().permute(0, 2, 3, 1).numpy()
    changed = [
        np.asarray(change(PIL.Image.fromarray(image.squeeze(-1) if image.shape[-1] == 1 else image)))
        for image in pixels
    ]
    return torch.from_numpy(np.stack(changed)).reshape(pixels.shape).permute(0, 3, 1, 2) / 255


def jpeg(image: PIL.Image.Image) -> PIL.Image.Image:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90)
    return PIL.Image.open(file)


def cropped(image: PIL.Image.Image) -> PIL.Image.Image:
    width, height = image.size
    return image.crop((1, 1, width - 1, height - 1)).resize(image.size, PIL.Image.Resampling.BILINEAR)


def cornered(image: PIL.Image.Image) -> PIL.Image.Image:
    width, height = image.size
    return image.crop((1, 0, width, height - 1)).resize(image.size, PIL.Image.Resampling.BILINEAR)


CHANGES = {
    "exact": lambda images: images,
    "2 levels": lambda images: noise(images, 2),
    "6 levels": lambda images: noise(images, 6),
    "JPEG": lambda images: resaved(images, jpeg),
    "a pixel cropped": lambda images: resaved(images, cropped),
    "a pixel of two sides cropped": lambda images: resaved(images, cornered),
    "moved by a pixel": lambda images: pad(images, (1, 0, 0, 1))[:, :, 1:, :-1],
    "brighter": lambda images: (images + 0.02).clamp(0, 1),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["digits", "large"])
def test_ten_pictures_five_times_each_are_ten(name: str, change: str, digits: Tensor) -> None:
    images = pictures(name, digits)
    again = [CHANGES[change](images), CHANGES[change](images), images, CHANGES[change](images)]
    assert first_of(torch.cat([images, *again])) == list(range(10)) * 5


def test_images_of_their_own_are_not_joined(digits: Tensor) -> None:
    assert first_of(digits) == list(range(len(digits)))
    assert first_of(1 - digits[:300]) == list(range(300))
    assert first_of(digits[:300] / 8 + 0.4) == list(range(300))  # pale: contrast counts


def test_other_pictures_are_no_copies(digits: Tensor) -> None:
    images = torch.cat([digits[:40], digits[:40].flip(3), digits[:40].transpose(2, 3), 1 - digits[:40]])
    assert len(set(first_of(images))) >= 150  # some digits are their own mirror image


def test_blank_images_are_copies_and_tiny_ones_are_not_compared() -> None:
    blank = torch.full((3, 1, 8, 8), 0.5)
    assert first_of(blank) == [0, 0, 0]
    tiny = torch.rand(4, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    assert first_of(torch.cat([tiny, tiny])) == list(range(8)), "thumbnails tell which of these are the same"


def test_copies_of_copies_lead_to_the_first() -> None:
    assert firsts(["a", "b", "c", "d", "e"], [("c", "b"), ("d", "c"), ("z", "a")]).tolist() == [0, 1, 1, 1, 4]  # pyright: ignore[reportOptionalMemberAccess]
    assert firsts(["a", "b", "c"], [("c", "b"), ("b", "a")]).tolist() == [0, 0, 0]  # pyright: ignore[reportOptionalMemberAccess]
    assert firsts(["a", "b"], []) is None
    assert firsts(["a", "b"], [("a", "c")]) is None


@dataclass(frozen=True)
class Held(Measure):
    """A measure of whatever rows a table has."""

    named: bool = False
    better = "higher"
    unit = "share"
    question = how_to_read = reference = ""
    column = "held"

    def observations(self) -> tuple[Any, ...]:
        return ()

    def observe(self, subject: Any) -> Table:
        raise NotImplementedError

    def rows(self, table: Table) -> list[str] | None:
        return [f"query {place}" for place in range(len(table["held"]))] if self.named else None

    def reduce(self, table: Table) -> dict[str, Statistic]:
        return {"held": Share(table["held"]), "mean": Mean(table["size"])}


def a_table(pictures: int, times: int) -> Table:
    held = (torch.arange(pictures) % 2).double().repeat(times)
    return {"held": held, "size": torch.arange(pictures).double().repeat(times)}


def test_intervals_are_those_of_the_pictures() -> None:
    whole, first = a_table(10, 5), torch.arange(10).repeat(5)
    scores, alone = score_pictures(Held(), whole, first), Held().score(a_table(10, 1))
    assert (scores["held"].value, scores["held"].n) == (0.5, 10)
    assert (scores["held"].low, scores["held"].high) == statistics.clopper_pearson(5, 10)
    for name, score in scores.items():
        assert (score.value, score.low, score.high) == (alone[name].value, alone[name].low, alone[name].high)
        assert score.interval == f"{alone[name].interval}, each of 10 pictures once"
    # an attack of the first 12 images, of which two are copies
    some = {name: column[:12] for name, column in whole.items()}
    assert score_pictures(Held(), some, first)["held"].n == 10
    assert rows_of_pictures(Held(), some, first)["size"].tolist() == list(range(10))


def test_scores_of_the_images_that_two_runs_share_count_pictures() -> None:
    rows, table = [f"image {place}" for place in range(50)], a_table(10, 5)
    alike = tuple((rows[place], rows[place % 10]) for place in range(10, 50))
    score = Score(0.4, None, None, 10, "", if_weak="at most")
    entry = MeasureEntry(
        title="", better="higher", unit="share", part={"name": "held"}, headline="held",
        scores={"held": score, "mean": score},
    )  # fmt: skip
    side = Side(entry, rows, table, alike).on(rows[:8] + rows[20:32], Held())
    assert side.entry.scores["held"].n == 10
    assert side.entry.scores["held"].value == 0.5
    assert len(side.table["held"]) == 20


def test_without_copies_nothing_changes() -> None:
    table = a_table(10, 5)
    for first in (None, torch.arange(50), torch.cat([torch.arange(50), torch.tensor([0])])):
        assert score_pictures(Held(), table, first) == Held().score(table)
        assert rows_of_pictures(Held(), table, first) is table


def test_rows_that_are_no_images_say_that_copies_count() -> None:
    table, first = a_table(10, 5), torch.arange(10).repeat(5)
    scores = score_pictures(Held(named=True), table, first)
    assert scores["held"].n == 50
    assert all(score.interval.endswith(", copies of images counted like others") for score in scores.values())


def test_what_a_member_of_an_index_does_to_first_places() -> None:
    random = torch.Generator().manual_seed(0)
    bank, queries = (torch.randn(20, 3, generator=random, dtype=torch.float64) for _ in range(2))
    own = torch.arange(12)

    def mean_of_first(kept: list[int]) -> float:
        apart = torch.cdist(queries[:12], bank)
        nearer = [sum(bool(apart[i, j] < apart[i, i]) for j in kept if j != i) for i in range(12)]
        return sum(1 / (1 + count) for count in nearer) / 12

    changes = first_without(queries[:12], bank, own, L2())
    for left in range(20):
        expected = mean_of_first([j for j in range(20) if j != left]) - mean_of_first(list(range(20)))
        assert float(changes[left]) == pytest.approx(expected)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("times", [2, 6])
def test_equal_rows_hold_the_truth_as_often_as_promised(times: int) -> None:
    """Half of 20 pictures are there several times: intervals of images hold the truth too seldom."""
    random = np.random.default_rng(times)
    first = torch.arange(20).repeat_interleave(torch.tensor([1, times]).repeat(10))
    first = torch.searchsorted(first, first)
    held = {"images": 0, "pictures": 0}
    for _ in range(400):
        sizes = torch.from_numpy(np.exp(random.normal(size=len(first))))[first]
        table = {"held": (sizes > 1).double(), "size": sizes}
        for name, scores in (("images", Held().score(table)), ("pictures", score_pictures(Held(), table, first))):
            low, high = scores["held"].low, scores["held"].high
            assert low is not None
            assert high is not None
            held[name] += low <= 0.5 <= high
    assert held["pictures"] / 400 >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / 400)
    assert held["images"] < held["pictures"]
