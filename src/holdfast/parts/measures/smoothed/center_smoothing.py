"""Center smoothing: how far a small change can provably move the smoothed representation at most."""

from dataclasses import dataclass

from holdfast.core import Subject, Table
from holdfast.numerics.geometry.directions import unit
from holdfast.numerics.geometry.invariance import EVERY
from holdfast.numerics.statistics import universal
from holdfast.numerics.statistics.statistic import Median, Share, Statistic
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.measures.shared.all_pairs import OfAllPairs
from holdfast.parts.measures.shared.smoothed_measure import SmoothedMeasure
from holdfast.parts.observations.clean import Clean
from holdfast.parts.smoothing.center import Center
from holdfast.parts.smoothing.shared.certificate import Certificate


@dataclass(frozen=True)
class CenterSmoothing(OfAllPairs, SmoothedMeasure):
    """ε_out for a change of ε_in, as a universal quantile: P_{x',x''}[ d(f(x'), f(x'')) <= ε_out ]; see `Center`.

    The distribution is the exact empirical one of all pairs of clean representations of the population (unit
    vectors where the certificate is of those); see `UniversalQuantile`. Medians are over the images that did not
    abstain.

    Table, one row per image of the population: `radius`, ε_out in the units of the representation, and `quantile`, NaN
    where the certificate abstained or there is none; `abstained`, 1 or 0, NaN where there is none; `near`, the share of
    the pairs with an image that lie at or below the median radius.
    """

    invariant = EVERY - {"scaling"}  # its radius is a length of the representation's own

    certificate: Certificate = Center()

    better = "lower"
    unit = "share"
    question = (
        "How far at most can a small change of an image move its smoothed representation, compared with distances "
        "between images?"
    )
    how_to_read = (
        "30 % means that no change of the given size can move the smoothed representation farther than the distance "
        "that 30 % of image pairs stay below; at 100 % the bound says nothing. It is a guarantee for the smoothed "
        "encoder (the centre of its outputs under noise), not for the encoder itself. Abstentions are left out and "
        "counted."
    )
    reference = "Kumar & Goldstein (2021); section 7 and appendix C.10 of Petrov & Kwiatkowska (2022)"

    @property
    def column(self) -> str:
        """The universal quantile."""
        return "quantile"

    def observe(self, subject: Subject) -> Table:
        """Return the radius in the representation of every image, and its quantile."""
        certificate = self.certificate
        assert isinstance(certificate, Center)
        certified, clean = self.conclusions(subject), Clean.of(subject).double()
        # Distances between clean images in the space in which the certificate bounds drift
        bank = unit(clean) if certificate.normalised else clean
        # The radius as a universal quantile, section 5, so that encoders can be compared
        quantile, near, _ = self.place(subject, bank, certified["radius"][None], L2())
        radius, abstained = (
            universal.pad_to_population(certified[name], len(bank)) for name in ("radius", "abstained")
        )
        return {"radius": radius, "quantile": quantile[0], "abstained": abstained, "near": near[0]}

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return abstentions, and the medians of radius and quantile."""
        certificate = self.certificate
        assert isinstance(certificate, Center)
        # Both steps may err: the centre, and the distance around it (union bound)
        holds = 1 - certificate.alpha_centre - certificate.alpha_distance
        promise = f"for changes of up to {certificate.radius:g} (ℓ2), each image on its own at confidence {holds:g}"
        tested = ~table["abstained"].isnan()
        counted = f"{int(table['abstained'].nansum())} of {int(tested.sum())} images abstained"
        radius = Median(table["radius"], among=~table["radius"].isnan())
        return {
            "abstained": self.about(Share(table["abstained"], among=tested)).say(better="lower"),
            "median radius": self.about(radius, promise, counted, unit="ratio"),
            "median quantile": self.about(self.median_quantile(table["quantile"], table["near"]), promise, counted),
        }
