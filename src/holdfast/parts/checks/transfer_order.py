"""Does an attack made on another encoder get farther than the one that knows this encoder?"""

from dataclasses import dataclass

import torch

from holdfast.core import Check, Examination, Objective, Observation, Search, Subject, Verdict
from holdfast.parts.checks.shared.search import SearchCheck, gain_of, in_words, times_as_far
from holdfast.parts.measures.shared.transfer_measure import TransferMeasure
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.shared.worst import trajectories, worst
from holdfast.parts.observations.transferred import Transferred


@dataclass(frozen=True)
class TransferOrder(SearchCheck):
    """Compares the whitebox attack with the worst transferred one, image by image; losing to it means masked gradients.

    It makes no pass of its own, and looks at all attacked images.

    Attributes:
        transfers: the transferred attacks.
        warn: share of images on which a transferred attack gets at least 5 % farther, above which the panel warns.
        fail: median gain of the transferred attacks above which it fails.

    Source: Athalye et al. (2018), section 3.1.
    """

    transfers: tuple[Transferred, ...] = ()
    warn: float = 0.15
    fail: float = 0.1

    doubt = "weak attack"
    place = 25

    @classmethod
    def checks_for(cls, audit: Examination) -> tuple[Check, ...]:
        """Every whitebox search beside which attacks are transferred."""
        transfers: dict[Search, dict[Transferred, None]] = {}
        for measure in audit.measures:
            if isinstance(measure, TransferMeasure) and measure.transfers and measure.whitebox:
                transfers.setdefault(measure.searches[0], {}).update(dict.fromkeys(measure.transfers))
        return tuple(
            cls(search.attack, search.ball, search.objective, audit.images, tuple(runs))
            for search, runs in transfers.items()
        )

    def observations(self) -> tuple[Observation, ...]:
        """Those of the measures."""
        images = (transfer.attacked for transfer in self.transfers)
        return Clean(), *images, *self.transfers, *self._whitebox

    @property
    def _whitebox(self) -> tuple[Attacked, ...]:
        assert isinstance(self.objective, Objective)  # measures of transferred attacks have no other search
        return trajectories(self.attack, self.ball, self.objective, (self.attack.steps,))

    def judge(self, subject: Subject) -> Verdict:
        """Count the images on which a transferred attack wins."""
        # how far each attack brings the objective; a surrogate that is the encoder itself is no other
        (reps,) = worst(subject, self.attack, self._whitebox).values()
        clean = Clean.of(subject).double()[: len(reps)]
        seen = [subject.read(transfer) for transfer in self.transfers]
        others = [results["reps"].double() for results in seen if not bool(results["same"].all())]
        if not others:
            return Verdict("skip", "no surrogate but the encoder itself", "There is no other encoder to compare with.")
        assert isinstance(self.objective, Objective)
        # How far above its value at the image itself, as in `rise`
        start = self.objective(clean, clean)
        own = self.objective(reps, clean) - start
        best = torch.stack([self.objective(other, clean) - start for other in others]).amax(0)

        # where a transferred one gets farther, the whitebox attack has missed a worst case of its own ball
        times = times_as_far(best, own)
        won, gain = float((times > 1.05).double().mean()), gain_of(times)
        finding = (
            f"an attack made on another encoder gets at least 5 % farther on {100 * won:.0f} % of {len(own)} images"
        )
        details = {"won": won, "gain": gain}
        if gain > self.fail:
            finding += f", {in_words(gain)} in the median"
            return Verdict(
                "fail", finding, "Gradients of this encoder are masked: it is more fragile than it looks.", details
            )
        if won > self.warn:
            meaning = "The whitebox attack misses some worst cases (masking or local optima); prefer the ensemble."
            return Verdict("warn", finding, meaning, details)
        return Verdict("pass", finding, "Knowing the encoder helps the attack, as it must.", details)
