"""Randomized smoothing: the class that most noisy versions of an image get, and how far it holds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from holdfast.core import Head, LinearProbe, Reps
from holdfast.numerics.statistics import betting, sequential
from holdfast.parts.smoothing.shared.certificate import Anchor, Certificate, Sampling, radius
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class Classifier(Certificate):
    """R = σ Φ⁻¹(p̲): the smoothed classifier gives its class to every x' with ||x' - x||_2 < R; abstains where p̲ < ½.

    The class is the one that most of the first `selection` draws get; p̲ is a lower 1-α bound of its probability
    from `draws` fresh ones. The classifier is the linear head of the anchor, or without one, and without labels,
    instances: the class of a representation is the image of the population whose clean representation is nearest (ℓ2;
    of several equally near ones x itself), and the right one is x.

    Attributes:
        selection: n₀, draws that choose the class.
        draws: n, draws for the bound (at most, with betting).
        alpha: α, the chance that the bound is too high.
        bound: "clopper_pearson", exact for exactly n draws; or "betting", a little lower at n, which allows to stop
            early: once the class is shown to have less than ½, or more with a radius at most `precision` σ below the
            plug-in one, or below the largest that `draws` can show.
        precision: see `bound`, in units of σ.
        probe: how the linear head comes about, from training images under the same noise; None: instances.

    Source: Cohen et al. (2019), CERTIFY.

    Example:
        >>> Classifier(selection=100, draws=1000).budget
        1100
    """

    selection: int = 100
    draws: int = 1000
    alpha: float = 0.001
    bound: str = "clopper_pearson"
    precision: float = 0.2
    probe: LinearProbe | None = None

    def __post_init__(self) -> None:
        betting.check_level(self.alpha, "classifier")
        if self.bound not in ("clopper_pearson", "betting"):
            raise BadValue(f"classifier bound: expected 'clopper_pearson' or 'betting', got {self.bound!r}")
        if self.selection < 1 or not 0 <= self.precision < float("inf"):
            raise BadValue(
                f"classifier: expected at least 1 draw for selection and a precision of 0 or more, got "
                f"{self.selection} and {self.precision}"
            )
        fewest = (betting.fewest_trials if self.bound == "clopper_pearson" else betting.fewest_draws)(self.alpha)
        if self.draws < fewest:
            raise BadValue(
                f"classifier: {self.draws} draws can never certify at alpha {self.alpha:g}; take {fewest} or more"
            )

    @property
    def budget(self) -> int:
        """n₀ + n."""
        return self.selection + self.draws

    @property
    def highest_radius(self) -> float:
        """The largest radius that it can certify, in units of σ: that of draws which all agree."""
        if self.bound == "betting":
            return betting.highest_radius(self.draws, self.alpha)
        all_agree = torch.tensor(self.draws)
        return float(radius(betting.clopper_pearson_lower(all_agree, self.draws, self.alpha), 1.0))

    def check(self, sigma: float) -> None:
        """Every σ will do."""

    def sample(self, anchor: Anchor) -> Sampling:
        """Choose the class, then count how many fresh draws get it."""
        classify = _linear(anchor.head) if anchor.head is not None else _instances(anchor)
        # CERTIFY of Cohen et al., first the class that most of n₀ draws get
        votes: list[Tensor] = []
        while (drawn := sum(map(len, votes))) < self.selection:
            votes.append(classify((yield self.selection - drawn)))
        chosen = torch.cat(votes).mode().values
        # Then how many of n draws get it: fresh ones, for the bound must not know the choice
        drawn = hits = 0
        while drawn < self.draws:
            reps = yield self.draws - drawn
            drawn += len(reps)
            hits += int((classify(reps) == chosen).sum())
            # Only the betting bound holds at a number of draws that depends on what they were
            if self.bound == "betting" and self._should_stop(hits, drawn):
                break
        return {"vote": chosen.cpu(), "hits": torch.tensor(hits), "draws": torch.tensor(drawn)}

    def _should_stop(self, hits: int, drawn: int) -> bool:
        counts = betting.tally_votes(torch.tensor(hits), torch.tensor(drawn))
        return bool(sequential.is_settled(counts, self.precision, self.alpha, self.draws))

    def conclude(self, results: Mapping[str, Tensor], sigma: float) -> dict[str, Tensor]:
        """The certificate of every image, [B].

        `vote`, the class that was chosen; `lower`, p̲ of it; `radius` in pixels, 0 where it `abstained` (1 or 0); and
        `draws`, how many were used for the bound.
        """
        hits, draws = results["hits"], results["draws"]
        if self.bound == "betting":
            lower = betting.lower(betting.tally_votes(hits, draws), self.alpha, self.draws)
        else:
            lower = betting.clopper_pearson_lower(hits, draws, self.alpha)
        return {
            "vote": results["vote"],
            "lower": lower,
            "radius": radius(lower, sigma),
            "abstained": (lower < 0.5).double(),
            "draws": draws,
        }


def _linear(head: Head) -> Callable[[Reps], Int[Tensor, "draws"]]:
    """Return the label of representations by a linear head."""

    def classify(reps: Reps) -> Int[Tensor, "draws"]:
        logits = torch.addmm(head.bias.to(reps), reps, head.weights.T.to(reps))
        return head.classes.to(reps.device)[logits.argmax(1)]

    return classify


def _instances(anchor: Anchor) -> Callable[[Reps], Int[Tensor, "draws"]]:
    """Return the class of representations among images: the nearest one."""
    own = anchor.clean[anchor.position]
    offsets = anchor.clean - own  # seen from x itself, a twin's advantage is exactly zero
    lengths = offsets.square().sum(1)
    # what moved less than half way to the nearest other image still belongs to its own: a hundredth is for rounding
    # ‖z - x‖ < ½ ‖x_j - x‖ for all j is ‖z - x‖² < ¼ of the least square
    others = lengths.clone()
    others[anchor.position] = torch.inf
    half_way = others.amin() / 4.04

    def classify(reps: Reps) -> Int[Tensor, "draws"]:
        votes, moved = torch.full((len(reps),), anchor.position, device=reps.device), reps - own
        # Draws near x are decided; the product with all images, [far, N], is taken for the others alone
        far = (moved.square().sum(1) >= half_way).nonzero()[:, 0]
        advantage = torch.addmm(lengths, moved[far], offsets.T, beta=-1, alpha=2)  # ||z - x||² - ||z - x_j||²
        lost = advantage.amax(1) > 0  # few, and a maximum without its place is found much faster
        votes[far[lost]] = advantage[lost].argmax(1)
        return votes

    return classify
