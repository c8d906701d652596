"""Transfer rate: how many images an attack breaks that was made on another encoder."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Failure, Subject, Table
from holdfast.numerics.statistics.statistic import Share, Statistic
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.measures.shared.transfer_measure import CONDITION, TransferMeasure


@dataclass(frozen=True)
class TransferRate(TransferMeasure):
    """P[ f(x̂_s) fails ], x̂_s = argmax over the ball of objective(f_s(x'), f_s(x)); P[ some f(x̂_s) fails ] for all s.

    f is the audited encoder, f_s a surrogate, on the same pixels. An image counts for any surrogate where the attack of
    at least one of them breaks it; the encoder itself is none of them.

    Table, one row per attacked image: `fails@SOURCE`, 1 or 0, for each surrogate, "queries" (an attack that only asks
    f), "whitebox" (the same attack on f) and "any surrogate"; `same@SURROGATE`.

    Attributes:
        failure: what counts as a failure of the audited encoder.
    """

    failure: Failure = Nearest()

    per_image = "fails"
    in_brief = True
    question = "How many images does somebody break who attacks another encoder, and never runs yours?"
    how_to_read = (
        "10 % means that one image in ten is broken by an attack that was made on another encoder. Such numbers are "
        "what these surrogates and this attack reach: another encoder, nearer to yours, reaches more, at most what the "
        "whitebox attack and those beyond it do. Queries need access to your encoder, and no other one."
    )
    reference = "Papernot et al. (2016); surrogates in representation space are Holdfast's own"

    @property
    def needs_labels(self) -> bool:
        """Whether the failure reads labels."""
        return self.failure.needs_labels

    def harm(self, subject: Subject, reps: Float[Tensor, "attacked dim"]) -> Float[Tensor, "attacked"]:
        """Return 1 where an attacked image fails."""
        # The failure of the audited encoder: what the surrogate's attack did
        # to the surrogate does not count
        event = self.failure.bind(subject.shard(len(reps)))
        return (event(reps[:, None], torch.arange(len(reps))).squeeze(1) > 0).double().cpu()

    def reduce_source(self, table: Table, source: str) -> Statistic:
        """Return the share of images that fail."""
        return Share(table[f"fails@{source}"], condition=CONDITION)
