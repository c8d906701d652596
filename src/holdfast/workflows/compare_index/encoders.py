"""Images as an encoder represents them: each sees the pictures its own way, in one pass; stored ones cost none."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from holdfast.auditing.plan import CLEAN, batch_size_for
from holdfast.auditing.prepare import label
from holdfast.auditing.record import encoder_entry, passes_entry
from holdfast.auditing.services import Foreseen, Sending
from holdfast.auditing.session import Session
from holdfast.core import Encoder, Observation, Passes, registry
from holdfast.runtime.foreign import foreign
from holdfast.runtime.listener import Listener
from holdfast.runtime.privacy import public
from holdfast.sources.data import ImageSet
from holdfast.sources.encoders import destination_of, draws_of, is_differentiable, open_encoder
from holdfast.storage.index_upgrade import IndexEncoder, IndexPasses
from holdfast.storage.run_folder import OtherEncoder, Store
from holdfast.workflows.compare_index.disturbed import FIRST, disturbances
from holdfast.workflows.compare_index.plan import IndexPlan
from holdfast.workflows.compare_index.upgrade import Represented

THUMBNAILS: Observation = registry.part("observations", "thumbnails")
"""Small pictures, by which look-alikes are known."""

QUERIES = 500
"""Forward passes of the search for disagreement on each side, where neither has a gradient."""


@dataclass(frozen=True)
class Side:
    """One encoder, and what it makes of the images.

    Attributes:
        entry: who it is, and what its passes were.
        images: the images as it sees them.
        thumbnails: of these, [N, cells].
        represented: what it makes of them.
    """

    entry: IndexEncoder
    images: ImageSet
    thumbnails: Float[Tensor, "images cells"]
    represented: Represented


def represent(
    plan: IndexPlan,
    spec: str,
    encoder: Encoder | None,
    images: ImageSet,
    store: Store,
    listener: Listener,
    recorded: str | None = None,
    ready: Encoder | None = None,
) -> Side:
    """Represent the images, and edited and disturbed ones where the plan asks for them, by one encoder.

    Args:
        plan: what is compared.
        spec: of the encoder.
        encoder: the one that was given; None where it is to be opened.
        images: the images.
        store: where representations are kept.
        listener: hears how far it is.
        recorded: the identity of the encoder in the folder's record.
        ready: the encoder where it is open already, see `reopen`.

    Raises:
        OtherEncoder: the folder's record is of another identity than this encoder's.
    """
    name = _name(spec, encoder)
    listener.stage("opening the encoder")
    opened = ready or reopen(plan, spec, encoder)
    with foreign(f"encoder {name!r}", "opened", wrap=True):
        rendered = render(images, opened)
        session = Session(
            opened,
            rendered,
            attacked=len(rendered),
            seed=plan.seed,
            batch_size=plan.batch_size or batch_size_for(rendered.shape, plan.device),
            device=plan.device,
            store=store,
            progress=listener.advance,
        )
    if recorded not in (None, session.identity):
        raise OtherEncoder.of(name)
    edits, disturbed = _edits(plan), _disturbances(plan)
    observations = _observations(plan)
    needs = [o.passes * o.images(len(rendered), len(rendered)) for o in observations]
    predicted = sum(needs, Passes())
    listener.begin(name, predicted.work)
    begun = opened.passes
    for observation, need in zip(observations, needs, strict=True):
        listener.stage(observation.title)
        before = opened.passes
        with foreign(f"{name}: {observation.title}", "run", wrap=True):
            session.observe(observation)
        listener.advance(need.work - (opened.passes - before).work)  # what was stored
    about = encoder_entry(opened, "", rendered.geometry)
    reps = session.read(CLEAN)["reps"]
    entry = IndexEncoder(
        name=name,
        fingerprint=about.fingerprint,
        parameters=about.parameters,
        mean=about.mean,
        std=about.std,
        origin=about.origin,
        geometry=about.geometry,
        input=list(rendered.shape),
        dim=reps.shape[1],
        identity=session.identity,
        passes=IndexPasses(predicted=passes_entry(predicted), made=passes_entry(opened.passes - begun)),
    )
    edited, seen = (
        {title: session.read(observation)["reps"] for title, observation in asked.items()}
        for asked in (edits, disturbed)
    )
    return Side(
        entry,
        rendered,
        session.read(THUMBNAILS)["thumbnails"],
        Represented(reps.double(), edited, rendered.labels, seen),
    )


def _edits(plan: IndexPlan) -> dict[str, Observation]:
    """Return what is observed of edited copies, by title."""
    return registry.part("measures", "edited_retrieval").representations if plan.edits else {}


def _disturbances(plan: IndexPlan) -> dict[str, Observation]:
    """Return what is observed of disturbed images, by title."""
    return disturbances(None if plan.edits else FIRST) if plan.same else {}


def _observations(plan: IndexPlan) -> list[Observation]:
    """Return all that is observed of the images, each once: edits are among both where all images are edited."""
    return list(dict.fromkeys((CLEAN, THUMBNAILS, *_edits(plan).values(), *_disturbances(plan).values())))


def foresee(plan: IndexPlan, given: Mapping[str, Encoder], stored: Collection[str], images: ImageSet) -> list[Sending]:
    """Return what encoders are sent that are services; nothing where none is one.

    Args:
        plan: what is compared.
        given: encoders that are open, by their specs.
        stored: specs of stored vectors.
        images: the images.
    """
    sides = (plan.old, plan.new)
    asked = [spec for spec in sides if spec not in {*given, *stored} and destination_of(spec) is not None]
    if not asked:
        return []
    rendered = images.with_geometry(images.common_geometry)
    size = plan.batch_size or batch_size_for(rendered.shape, plan.device)
    foreseen = Foreseen(len(images), rendered.shape, size)
    for spec in dict.fromkeys(asked):
        draws = draws_of(spec)
        for observation in _observations(plan):
            each = observation.passes_at("float32", draws).forward
            foreseen.observe(spec, observation, each, observation.images(len(images), len(images)))
    if plan.attacked:
        # As far as sources tell: a file may yet turn out to have no gradient, and then calls end where they must
        old, new = (given[spec].differentiable if spec in given else is_differentiable(spec) for spec in sides)
        observation = disagreements(plan, (old, new))
        for spec, passes in zip(sides, observation.passes_of_sides((old, new)), strict=True):
            if spec in asked:
                foreseen.observe(spec, observation, passes.forward, min(plan.attacked, len(images)))
    return foreseen.sendings


def disagreements(plan: IndexPlan, gradients: tuple[bool, bool]) -> Any:
    """Return what looks for small changes on which both sides disagree: by queries where neither has a gradient."""
    queries = None if any(gradients) else QUERIES
    return registry.find("observations", "disagreements")(
        divergence=plan.compared_by, queries=queries, first=plan.attacked
    )


def reopen(plan: IndexPlan, spec: str, encoder: Encoder | None) -> Encoder:
    """Return an encoder of a plan where passes are made: the one that was given, or that of its spec."""
    with foreign(f"encoder {_name(spec, encoder)!r}", "opened", wrap=True):
        opened = (encoder or open_encoder(spec)).to(plan.device)
        return opened.prepare(precision="float32", compiled=False)


def render(images: ImageSet, encoder: Encoder) -> ImageSet:
    """Return the images as an encoder sees them."""
    return images.with_geometry(encoder.geometry or images.common_geometry)


def _name(spec: str, given: Encoder | None) -> str:
    return public(spec if given is not None else label(spec))
