"""Radius bound: is an image harder to take for another image than for another class, pair by pair?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from holdfast.core import Ball, Chart, LinearProbe, Measure, Observation, Score, Search, Subject, Table
from holdfast.core.chart import Scatter
from holdfast.numerics.geometry.invariance import AXES
from holdfast.numerics.statistics.statistic import Mean, Statistic
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.measures.shared.bracket import in_order
from holdfast.parts.observations.class_pair_radii import ClassPairRadii
from holdfast.parts.probes.linear import Linear
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.checked import Count

HEADING = "Radii of images and of classes"
READ = (
    "Each point is an image; upwards and across are the smallest changes that were found to turn one margin and the "
    "other. Theorems 15 and 17 of RVCL say that true radii lie above the dashed line."
)


@dataclass(frozen=True)
class RadiusBound(Measure):
    """Share of comparisons that refute R_CL(x⁺, x_ij⁻) >= R_LE(g_j; x⁺) >= R_LE(g_M; x⁺), for certain.

    g_j is the linear head that learned from x⁺ and its K negatives x_ij⁻ of class j, g_M the one that learned from x⁺
    and those of all p classes. True radii are not known, but each lies between a proof and an attack. So a comparison
    is refuted where the left side's attack is below the right side's proof, shown where the left side's proof is not
    below the right side's attack, and open else. "as attacked" compares the smallest changes that were found on both
    sides, which are upper bounds, and decides nothing for certain.

    Table, one row per attacked image: `pairs refuted`, `pairs shown` and `pairs as attacked`, shares of its pK
    comparisons of Theorem 15; `classes refuted` and so on, of the p of Theorem 17 (ii); `refuted` of both; and radii in
    pixels as attacked: `pair` and `binary`, the least of its pairs and binary heads, and `several`.

    Attributes:
        certifier: how to bound.
        ball: the norm of the radius; its own radius is not read.
        classes: p, other classes for each image.
        negatives: K, images of each.
        probe: how heads come about.
        steps: of each search for the smallest change.
        tolerance: of the search for a proved radius, in pixels.
        first: only the first images; None: all that the audit attacks.
    """

    invariant = AXES

    certifier: Propagation = Crown()
    ball: Ball = Linf()
    classes: int = 3
    negatives: int = 5
    probe: LinearProbe = Linear()
    steps: int = 40
    tolerance: float = 1e-5
    first: Count | None = None

    of_any_radius = True
    reads_labels = True
    better: Literal["lower", "higher"] = "lower"
    unit: Literal["share", "ratio", "similarity", "pixels"] = "share"
    question = "How often does an image keep its class beyond the radius within which it keeps its identity?"
    how_to_read = (
        "0 % means that no comparison refutes the bound of RVCL's theorems; comparisons that are neither refuted nor "
        "shown stay open. A share above 0 says that the bound, which the theorems prove under a model of distances, "
        "does not hold there."
    )
    reference = "Wang & Liu (2023), Theorems 15 and 17"

    def __post_init__(self) -> None:
        self.radii.key()  # builds it, which refuses what it cannot do

    @property
    def learns(self) -> bool:
        """Its heads learn from the images that it is about."""
        return False

    @property
    def column(self) -> str:
        """Refuted comparisons of both theorems."""
        return "refuted"

    @property
    def radii(self) -> ClassPairRadii:
        """The radii of all margins, from both sides."""
        return ClassPairRadii(
            certifier=self.certifier, ball=self.ball, classes=self.classes, negatives=self.negatives, probe=self.probe,
            steps=self.steps, tolerance=self.tolerance, first=self.first,
        )  # fmt: skip

    def observations(self) -> tuple[Observation, ...]:
        """The radii."""
        return (self.radii,)

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Nothing that is refuted or shown relies on how strong a search was: a weaker one leaves more open."""
        return ()

    def observe(self, subject: Subject) -> Table:
        """Return how the radii of every image compare."""
        bounds = subject.read(self.radii)
        proved, attacked = bounds["certificate"], bounds["attack"]
        in_order(subject.ids, proved, attacked, 1e-6)
        # Columns: p K pairs, p binary heads, p margins of the head of all classes; p
        # may be less than was asked for
        classes = proved.shape[1] // (self.negatives + 2)
        parts = [classes * self.negatives, classes, classes]
        (low_pair, low_binary, low_rows), (pair, binary, rows) = proved.split(parts, 1), attacked.split(parts, 1)
        # R_LE of the head of all classes is that of its weakest margin, Eq. 7
        several, low_several = rows.amin(1, keepdim=True), low_rows.amin(1, keepdim=True)
        own = torch.arange(classes).repeat_interleave(self.negatives)  # the binary head of each pair's class
        # Theorem 15 (Theorem 17 (i)): each pair with the binary head of its class, [M, p K]
        first = _compare_radii(low_pair, pair, low_binary[:, own], binary[:, own])
        # Theorem 17 (ii): each binary head with the head of all classes, [M, p]
        second = _compare_radii(low_binary, binary, low_several, several)
        table = {f"pairs {name}": values.mean(1) for name, values in first.items()}
        table |= {f"classes {name}": values.mean(1) for name, values in second.items()}
        radii = {"pair": pair.amin(1), "binary": binary.amin(1), "several": several.squeeze(1)}
        # Where no attack was found there is no radius to average
        table |= {name: values.masked_fill(values.isinf(), torch.nan) for name, values in radii.items()}
        return table | {"refuted": torch.cat([first["refuted"], second["refuted"]], 1).mean(1)}

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return what is shown, as attacked and refuted of each theorem, the radii, and what is refuted of both."""
        names = [f"{which} {what}" for which in ("pairs", "classes") for what in ("shown", "as attacked", "refuted")]
        condition = "given this population, from which the negatives come"
        radii = {f"radius, {name}": table[name] for name in ("pair", "binary", "several")}
        means = {name: Mean(radius, condition=condition) for name, radius in radii.items()}
        shares = {name: Mean(table[name], condition=condition, most=1.0) for name in [*names, "refuted"]}
        # Larger radii are better, and what holds of more pairs; what is refuted of fewer
        in_pixels = {name: mean.say("pixels", "higher") for name, mean in means.items()}
        return in_pixels | {
            name: share if name.endswith("refuted") else share.say(better="higher") for name, share in shares.items()
        }

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return the radius of the nearest pair against those of both heads, image by image."""
        pair, binary, several = "the nearest pair", "the weakest binary head", "the head of all classes"
        lines = (("15", "binary", "pair", binary, pair), ("17", "several", "binary", several, binary))
        return tuple(
            Scatter(
                heading=HEADING, how_to_read=READ, title=f"Theorem {theorem}", score="refuted", x=x, y=y,
                across=f"radius of {across}, pixels", label=f"radius of {label}, pixels",
            )
            for theorem, x, y, across, label in lines
        )  # fmt: skip


def _compare_radii(low_left: Tensor, left: Tensor, low_right: Tensor, right: Tensor) -> dict[str, Tensor]:
    """Return what proofs and attacks say of left >= right, as 0 and 1."""
    return {
        # left >= right is refuted where even an upper bound of left is below a lower bound of
        # right, and shown where the lower bound of left reaches the upper one of right
        "refuted": (left < low_right).double(),
        "shown": (low_left >= right).double(),
        "as attacked": (left >= right).double(),
    }
