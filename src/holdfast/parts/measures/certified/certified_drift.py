"""Certified drift: how far a representation can be moved at most, on the scale of distances between images."""

from dataclasses import dataclass

import torch

from holdfast.core import Attack, Ball, Observation, Search, Subject, Table
from holdfast.core.divergence import read_divergence
from holdfast.numerics.geometry.invariance import AXES
from holdfast.numerics.statistics import universal
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.measures.shared.all_pairs import OfAllPairs
from holdfast.parts.measures.shared.bracket import Bracket, format_share, in_order
from holdfast.parts.measures.shared.drift import DRIFTS, drift_bounds
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.drifts import Drifts
from holdfast.parts.observations.shared.worst import trajectories
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.rounding import REPRESENTATIONS


@dataclass(frozen=True)
class CertifiedDrift(OfAllPairs, Bracket):
    """q(x) = P_{x',x''}[ d(f(x'), f(x'')) <= max_{x̂} d(f(x̂), f(x)) ] for d = ℓ∞, cosine and ℓ2; medians over images.

    attack: x̂ is anything that a search of the run met in the ball; certificate: the maximum is bounded from above by
    the box that holds every representation of the ball, see `drift_bounds`. The distribution is the exact one of all
    pairs of the population; see `UniversalQuantile`.

    Table, one row per image of the population, NaN where it was not certified: `attack` and `certificate`, quantiles of
    the ℓ2 drift; `D attack` and `D certificate`, those of D = linf and cosine; `drift D attack` and `drift D
    certificate`, the drifts themselves; `vacuous`. And for every image `near SIDE` of each of these sides, the share of
    the pairs with it that lie at or below the median drift.

    Attributes:
        attack: how the untargeted attack searches.
    """

    invariant = AXES

    certifier: Propagation = Crown()
    ball: Ball = Linf(0.05)
    attack: Attack = Apgd(50)

    better = "lower"
    unit = "share"
    question = "How large can the drift within the ball become, compared with distances between different images?"
    how_to_read = (
        "Attack: the share of image pairs that are closer together than the attacks of this audit moved the median "
        "image. Certificate: the share that no attack can exceed."
    )
    reference = "Petrov & Kwiatkowska (2022), section 5 (universal quantiles), certified by bound propagation"

    @property
    def certificate_side(self) -> Drifts:
        """The certificate's side."""
        return Drifts(self.certifier, self.ball, first=self.first)

    @property
    def attack_side(self) -> tuple[Attacked, ...]:
        """The attack's side."""
        return trajectories(self.attack, self.ball, Untargeted(), (self.attack.steps,), self.first)

    @property
    def searches(self) -> tuple[Search, ...]:
        """The attack's side, as a whole where it is that of an ensemble."""
        return (Search(self.attack, self.ball, Untargeted()),)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, ranges of representations, attacks."""
        return Clean(), self.certificate_side, *self.attack_side

    def observe(self, subject: Subject) -> Table:
        """Return drifts and quantiles of every image, on both sides."""
        bank = Clean.of(subject).double()
        ranges, table = subject.read(self.certificate_side), {}
        clean = bank[: len(ranges["apart"])]
        # What float32 may change a distance by grows with the representations' length
        rounding = 4 * REPRESENTATIONS * clean.norm(dim=1).max()
        # The attack's side: the farthest of all points that searches met, image by image
        for name, bound in drift_bounds(ranges, clean).items():
            divergence, drift = read_divergence(name), torch.zeros_like(bound)
            for points in subject.collect_points(self.ball):
                # Searches may have attacked more images than were certified, or fewer
                count = min(len(points), len(clean))
                for reps in points[:count].unbind(1):
                    drift[:count] = drift[:count].maximum(divergence(reps, clean[:count]))
            # Cosines do not depend on the length, so their rounding does not either
            in_order(subject.ids, drift, bound, float(4 * REPRESENTATIONS if divergence.of_directions else rounding))
            # Within rounding an attack may pass the bound; the certificate is
            # never on the better side of it
            bound = bound.maximum(drift)
            # The headline's columns have no prefix; both sides are placed
            # among the pairs at once, [2, M]
            prefix, both = "" if name == DRIFTS[-1] else f"{name} ", torch.stack([drift, bound])
            placed = zip(("attack", "certificate"), both, *self.place(subject, bank, both, divergence)[:2], strict=True)
            for side, values, quantiles, near in placed:
                table[f"drift {name} {side}"] = universal.pad_to_population(values, len(bank))
                table |= {f"{prefix}{side}": quantiles, f"near {prefix}{side}": near}
        return table | {"vacuous": universal.pad_to_population(ranges["vacuous"].double(), len(bank))}

    def remarks(self, table: Table) -> str:
        """Return how many bounds say nothing."""
        return format_share(table, "vacuous", "of the bounds vacuous")

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return both sides for every divergence."""
        # The headline's divergence comes last, from the base class
        sides = [f"{name} {side}" for name in DRIFTS[:-1] for side in ("attack", "certificate")]
        return {side: self.reduce_column(table, side) for side in sides} | super().reduce(table)

    def reduce_column(self, table: Table, column: str) -> Statistic:
        """Return the median quantile of a side."""
        return self.median_quantile(table[column], table[f"near {column}"])
