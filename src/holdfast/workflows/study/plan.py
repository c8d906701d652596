"""A study of corrupted pre-training data: the methods, the versions of the data, and how encoders are judged."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from holdfast.core import Probe, Threat
from holdfast.core.registry import part
from holdfast.runtime.checked import Checked
from holdfast.runtime.errors import BadValue, Conflict, Mismatch
from holdfast.training.recipe import Recipe

UNTRAINED = "untrained"
"""The row of the network before any training."""


@dataclass(frozen=True)
class Column(metaclass=Checked):
    """One version of the images to learn from.

    Attributes:
        title: how it is called.
        corruption: what befalls every image; None: nothing.
        data: another data spec instead of the recipe's: imbalanced classes, replaced images; None: the recipe's.
        averaged: whether its Δ counts in the average.
    """

    title: str
    corruption: Threat | None = None
    data: str | None = None
    averaged: bool = True

    def __post_init__(self) -> None:
        if self.corruption is not None and self.data is not None:
            raise Conflict(f"column {self.title!r}: expected a corruption or other data, got both")

    def recipe(self, original: Recipe) -> Recipe:
        """Return a recipe that learns from this version of its images."""
        return replace(original, corruption=self.corruption, data=self.data or original.data)


ORIGINAL = Column("Orig")
TABLE_2 = (
    Column("γ 0.2", part("threats", "gamma", gamma=0.2)),
    *(Column(f"G{n}x{n}", part("threats", "global_shuffle", grid=n)) for n in (4, 8)),
    *(Column(f"L{n}x{n}", part("threats", "local_shuffle", grid=n)) for n in (4, 8)),
)
"""The corruptions of the paper's Table 2."""


@dataclass(frozen=True)
class Study(metaclass=Checked):
    """Methods, the versions of the data they learn from, and how they are judged.

    Δ(c) = (Acc - Acc(c)) / Acc: Acc of the encoder that learned from the images as they are, Acc(c) of the one that
    learned from version c, on the same tested images. Their average is taken over the corruptions; over other data
    where there are no corruptions; in both cases over columns that are `averaged`.

    Attributes:
        recipes: a training on the original images by the name of its row.
        test: data spec of the labelled images that the encoders are tested on.
        columns: the other versions of the data.
        test_images: how many images are tested; None: all.
        test_seed: which of them, and which of the recipes' images the probes learn from; trainings leave both alone.
        seeds: one training of every method on every version with each of these; empty: one, with the recipe's seed.
        probes: what learns from the representations of the recipes' images.

    Source: "Is self-supervised contrastive learning more robust than supervised learning?" (Zhong et al., 2022),
    sections 2.1 and 3.2, Tables 2, A.1 and D.7.
    """

    recipes: Mapping[str, Recipe]
    test: str
    columns: tuple[Column, ...] = TABLE_2
    test_images: int | None = None
    test_seed: int = 0
    seeds: tuple[int, ...] = ()
    probes: tuple[Probe, ...] = (part("probes", "linear"), part("probes", "knn"))

    def __post_init__(self) -> None:
        titles = [column.title for column in (ORIGINAL, *self.columns)]
        if self.columns and not any(column.averaged for column in self.columns):
            raise BadValue("study: expected at least one column whose Δ counts in the average, got none")
        if not self.recipes or not self.columns or not self.probes:
            raise BadValue("study: expected at least one method, one column and one probe")
        if len(set(titles)) < len(titles):
            raise BadValue(f"study: expected columns of different titles, got {', '.join(titles)}")
        if len(set(self.seeds)) < len(self.seeds):
            raise BadValue(f"study: expected different seeds, got {', '.join(map(str, self.seeds))}")
        if UNTRAINED in self.recipes:
            raise BadValue(f"study: the row {UNTRAINED!r} is always there; call yours otherwise")
        if wrong := [title for title, recipe in self.recipes.items() if recipe.corruption is not None]:
            raise Conflict(f"study: corruptions are columns; leave them out of {', '.join(wrong)}")
        if len({(own.encoder, own.data, own.images, own.seed) for own in self.recipes.values()}) > 1:
            raise Mismatch("study: expected methods with the same encoder, data, images and seed")
