"""What a comparison of two encoders of one index is made of."""

from dataclasses import asdict, dataclass

from holdfast.config.part_syntax import part_table
from holdfast.core import Divergence, registry
from holdfast.numerics.geometry.divergence import LinearDivergence
from holdfast.runtime.errors import BadValue, Conflict, Missing
from holdfast.sources.vectors import is_stored
from holdfast.storage.index_upgrade import IndexPlanEntry
from holdfast.workflows.compare_index.request import IndexRequest

RATE = 1e-3
"""False positives that a threshold is set at where nobody says otherwise, a share of the pairs of different images."""


@dataclass(frozen=True)
class IndexPlan(IndexRequest):
    """What is compared, and how; without a rate and a threshold, the rate is `RATE`."""

    def __post_init__(self) -> None:
        self._refuse_without_images()
        if not self.compared_by.symmetric:
            raise BadValue(
                f"divergence: expected a symmetric one for pairs of images, got '{self.divergence}'; take l2, cosine "
                "or dot"
            )
        if self.images is not None and self.images < 3:
            raise BadValue(f"images: expected at least 3, for lists of neighbours, got {self.images}")
        if self.calls is not None and self.calls < 1:
            raise BadValue(f"calls: expected at least 1, got {self.calls}")
        for option, count in (("attacked", self.attacked), ("proved", self.proved)):
            if count < 0:
                raise BadValue(f"{option}: expected 0 or more of the first images, got {count}")
        if self.proved and not isinstance(self.compared_by, LinearDivergence):
            raise Conflict(
                f"proved: expected a divergence whose margins are linear, l2, cosine or dot, got '{self.divergence}'; "
                "take one of them, or leave --proved out"
            )
        if not self.k or len(set(self.k)) < len(self.k):
            raise BadValue(f"k: expected one number of neighbours or more, each once, got {list(self.k)}")
        if self.rate is not None and self.threshold is not None:
            raise Conflict(
                "rate and threshold: expected one of them, for each says what the other is, got both; leave one out"
            )
        if self.rate is not None and not 0 < self.rate < 1:
            raise BadValue(f"rate: expected a share of pairs in (0, 1), got {self.rate:g}")
        if self.threshold is not None and not self.threshold > 0 and not self.compared_by.signed:
            raise BadValue(f"threshold: expected a distance above 0, got {self.threshold:g}")

    def _refuse_without_images(self) -> None:
        """Refuse what needs images where there are none, and images where nobody looks at them."""
        stored = [is_stored(spec) for spec in (self.old, self.new)]
        if self.old and not self.data and not all(stored):
            raise Missing(
                "data: expected the images of an index, which an encoder represents, got none; give --data, or "
                "vectors:FILE for both sides"
            )
        if all(stored) and self.data:
            raise Conflict("data: expected no images beside two sides of stored vectors, got some; leave them out")
        if any(stored) and self.edits:
            raise Conflict("edits: expected two encoders, which see edited copies, got stored vectors; leave it out")
        if any(stored) and self.attacked:
            raise Conflict(
                "attacked: expected two encoders, which are shown changed images, got stored vectors; leave it out"
            )
        if any(stored) and self.proved:
            raise Conflict(
                "proved: expected two encoders, whose networks can be read, got stored vectors; leave it out"
            )
        if all(stored) and self.images is not None:
            raise Conflict(
                "images: expected none with stored vectors, which are all compared; --queries says how many of them "
                "have their neighbours looked for"
            )
        if self.queries is not None and not all(stored):
            raise Conflict("queries: expected two sides of stored vectors, got an encoder; say --images")
        if self.queries is not None and self.queries < 3:
            raise BadValue(f"queries: expected at least 3, for an interval, got {self.queries}")

    @property
    def entry(self) -> IndexPlanEntry:
        """What decides the answer, as records have it: all but how many calls services may get."""
        kept = IndexPlanEntry.__struct_fields__
        return IndexPlanEntry(**{name: value for name, value in asdict(self).items() if name in kept})

    @property
    def noun(self) -> str:
        """What is compared: without images, whatever vectors are of."""
        return "item" if self.old and not self.data else "image"

    @property
    def requirements(self) -> tuple[str, ...]:
        """What the new encoder must hold; of two builds of one network that they keep their neighbours, unless said."""
        return self.require or ((f"overlap@{max(self.k)} > 90 %",) if self.same else ())

    @property
    def compared_by(self) -> Divergence:
        """How representations are compared."""
        # A name may have fields, as on the command line
        return registry.build({"kind": "divergences", **part_table(self.divergence)})
