"""Encoders that are services: how many images are sent to whom, in how many calls, and whether that is allowed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from holdfast.auditing.plan import Plan
from holdfast.auditing.prepare import PreparedAudit
from holdfast.auditing.shards import spans
from holdfast.core import Observation
from holdfast.core.source_spec import label
from holdfast.runtime.errors import NotEnough
from holdfast.sources.encoders import destination_of, draws_of

OPENING = 2
"""Calls in which a service is looked at before it is asked."""


@dataclass(frozen=True)
class Sending:
    """What an audit sends to a service; searches may end with less, and what failed is asked again.

    Attributes:
        encoder: its name.
        host: who gets the images.
        images: how many these are.
        calls: in how many calls.
        price: of 1,000 images; None: nobody said it.
    """

    encoder: str
    host: str
    images: int
    calls: int
    price: float | None = None

    def __str__(self) -> str:
        cost = "" if self.price is None else f", which cost up to {self.images / 1000 * self.price:,.2f}"
        return f"{self.host} gets up to {self.images:,} images in about {self.calls:,} calls{cost} ({self.encoder})"


class Foreseen:
    """What services are sent, added up before the first image is.

    Args:
        population: images of the audit.
        shape: of the images.
        size: how many of them an encoder passes at a time.
    """

    def __init__(self, population: int, shape: tuple[int, int, int], size: int):
        self._population, self._shape, self._size = population, shape, size
        self._sent: dict[str, Sending] = {}

    @property
    def sendings(self) -> list[Sending]:
        """One for each service."""
        return list(self._sent.values())

    def observe(self, spec: str, observation: Observation, each: int, images: int) -> None:
        """Add an observation of so many images, with `each` passes for one; nothing where the encoder is no service."""

        def calls(most: int) -> int:
            if observation.scope.at_once:
                return ceil(each * images / most)
            shards = spans(observation, images, self._population, self._size, self._shape)
            return each * sum(ceil((stop - start) / most) for start, stop in shards)

        self.add(spec, each * images, calls)

    def add(self, spec: str, images: int, calls: Callable[[int], int]) -> None:
        """Add images; `calls` says in how many calls, of so many images at most."""
        if (destination := destination_of(spec)) is not None:
            one = self._sent.get(spec, Sending(label(spec), destination.host, 0, OPENING, destination.price))
            more = calls(destination.batch or self._size)
            self._sent[spec] = replace(one, images=one.images + images, calls=one.calls + more)


def foresee(plan: Plan, population: int, train: int | None, shape: tuple[int, int, int]) -> list[Sending]:
    """Return what a plan sends to encoders that are services.

    Args:
        plan: the plan.
        population: images of the audit.
        train: training images; None: probes learn from images that are not attacked.
        shape: of the images.
    """
    split, foreseen = plan.split(population, train), Foreseen(population, shape, plan.batch_size_of(shape))
    # Who is not sent anything has no draws to look up
    for spec in plan.encoders:
        draws = None if destination_of(spec) is None else draws_of(spec)
        for observation in plan.observations:
            each = observation.passes_at(plan.precision, draws).forward
            foreseen.observe(observation.surrogate or spec, observation, each, split.extent(observation))
        # Checks send few images at a time
        own = plan.predict_checks(population, draws).forward
        foreseen.add(spec, own, lambda most, own=own: own)
    return foreseen.sendings


def foresee_audit(audit: PreparedAudit, plan: Plan | None = None) -> list[Sending]:
    """Return what an audit sends to services, or what another plan for its images does."""
    tested, train = audit.images.tested, audit.images.train
    return foresee(plan or audit.plan, len(tested), None if train is None else len(train), tested.shape)


def fits_calls(audit: PreparedAudit, plan: Plan) -> bool:
    """Whether services may get as many calls as a plan makes, beside those that its folder has had before."""
    return audit.calls_end is None or _calls(foresee_audit(audit, plan)) <= audit.calls_end


def refuse_calls(audit: PreparedAudit) -> None:
    """Refuse an audit, or a round of one, that needs more calls than are allowed; before the first one.

    Raises:
        HoldfastError: it does.
    """
    if audit.plan.calls is not None and audit.calls_end is not None:
        refuse_sendings(foresee_audit(audit), audit.plan.calls, audit.calls_end, "attack")


def refuse_sendings(sent: Sequence[Sending], allowed: int, end: int, done: str) -> None:
    """Refuse to send more than is allowed.

    Args:
        sent: what services are to be sent.
        allowed: calls that this command may make.
        end: number of calls of its folder, those of earlier commands too, at which no further one is made.
        done: what is done to images, of which fewer need fewer calls.

    Raises:
        HoldfastError: it is more.
    """
    if (calls := _calls(sent)) > end:
        raise NotEnough(
            f"calls: this sends up to {sum(one.images for one in sent):,} images in about {calls:,} calls, and --calls "
            f"allows {allowed:,}; allow more, {done} fewer images, or put more into a call with ?batch="
        )


def _calls(sent: Iterable[Sending]) -> int:
    return sum(one.calls for one in sent)
