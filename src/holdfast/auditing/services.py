"""Encoders that are services: how many images are sent to whom, in how many calls, and whether that is allowed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil

from holdfast.auditing.plan import Plan
from holdfast.auditing.prepare import PreparedAudit
from holdfast.auditing.shards import spans
from holdfast.core import HoldfastError
from holdfast.core.source_spec import label
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


def foresee(plan: Plan, population: int, train: int | None, shape: tuple[int, int, int]) -> list[Sending]:
    """Return what a plan sends to encoders that are services.

    Args:
        plan: the plan.
        population: images of the audit.
        train: training images; None: probes learn from images that are not attacked.
        shape: of the images.
    """
    size, split, sent = plan.batch_size_of(shape), plan.split(population, train), dict[str, Sending]()

    def add(spec: str, images: int, calls: Callable[[int], int]) -> None:
        if (destination := destination_of(spec)) is not None:
            one = sent.setdefault(spec, Sending(label(spec), destination.host, 0, OPENING, destination.price))
            more = calls(destination.batch or size)
            sent[spec] = replace(one, images=one.images + images, calls=one.calls + more)

    # Who is not sent anything has no draws to look up
    for spec in plan.encoders:
        draws = None if destination_of(spec) is None else draws_of(spec)
        for observation in plan.observations:
            each, total = observation.passes_at(plan.precision, draws).forward, split.extent(observation)
            if observation.scope.at_once:
                calls = lambda most, images=each * total: ceil(images / most)  # noqa: E731
            else:
                shards = [stop - start for start, stop in spans(observation, total, population, size, shape)]
                calls = lambda most, each=each, shards=shards: each * sum(ceil(n / most) for n in shards)  # noqa: E731
            add(observation.surrogate or spec, each * total, calls)
        # Checks send few images at a time
        own = plan.predict_checks(population, draws).forward
        add(spec, own, lambda most, own=own: own)
    return list(sent.values())


def foresee_audit(audit: PreparedAudit, plan: Plan | None = None) -> list[Sending]:
    """Return what an audit sends to services, or what another plan for its images does."""
    tested, train = audit.images.tested, audit.images.train
    return foresee(plan or audit.plan, len(tested), None if train is None else len(train), tested.shape)


def fits_calls(audit: PreparedAudit, plan: Plan) -> bool:
    """Whether services may get as many calls as a plan makes, beside those that its folder has had before."""
    return audit.calls_end is None or sum(sent.calls for sent in foresee_audit(audit, plan)) <= audit.calls_end


def refuse_calls(audit: PreparedAudit) -> None:
    """Refuse an audit, or a round of one, that needs more calls than are allowed; before the first one.

    Raises:
        HoldfastError: it does.
    """
    if not fits_calls(audit, audit.plan):
        sent = foresee_audit(audit)
        calls, images = sum(one.calls for one in sent), sum(one.images for one in sent)
        raise HoldfastError(
            f"calls: this sends up to {images:,} images in about {calls:,} calls, and --calls allows "
            f"{audit.plan.calls:,}; allow more, attack fewer images, or put more into a call with ?batch="
        )
