"""From a request, or the TOML file of one, to a plan."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from holdfast.auditing.balls import NORM, audit_ball, shape_of
from holdfast.auditing.plan import Plan, unread, validity_panel
from holdfast.auditing.profile import OTHERWISE, profile_table
from holdfast.auditing.profile import profile as open_profile
from holdfast.auditing.request import AuditRequest, spell_norm
from holdfast.auditing.series import expand
from holdfast.auditing.until import until_of
from holdfast.config.overrides import apply_changes, set_parameters
from holdfast.config.reader import locate_errors, read
from holdfast.core import Ball, Encoder, HoldfastError, ImageSource, Measure, registry
from holdfast.core.threat import Shape
from holdfast.runtime.durations import seconds
from holdfast.runtime.errors import Conflict, Missing
from holdfast.runtime.option import fields_of
from holdfast.sources.data import open_images
from holdfast.sources.encoders import is_differentiable
from holdfast.storage.documents import read_toml

T = TypeVar("T")

TRANSFER = "transfer"
"""The profile whose measures surrogates add to those that take none."""

EACH = "each"
"""Among surrogates: all encoders of the plan."""

OTHER = 0.0123
"""A radius that nobody takes, to see whether measures depend on the audit's ball."""

NO_DATA = "gaussian"
"""Images of an audit that asks nothing about images: noise of the encoder's own size."""


def make_plan(
    request: AuditRequest, source: ImageSource | None = None, opened: Mapping[str, Encoder] | None = None
) -> Plan:
    """Return the plan of a profile, changed as asked.

    Args:
        request: what is asked. `series:FOLDER` among its encoders stands for all checkpoints in a folder, see
            `audit.series`; `EACH` among its surrogates for all encoders. Without images, where the measures need none,
            `NO_DATA` stands in for the panel's checks. Its `measures` are changes of the profile's, see
            `apply_changes`; its `settings` change single parameters, see `set_parameters`.
        source: images that are open already, instead of the data spec.
        opened: encoders that are open already, by their names.

    Where an encoder has no gradient, all are asked as the profile says for such, so that their numbers can be compared.

    Raises:
        HoldfastError: what cannot be asked.
    """
    # Encoders; the measures of the profile in the audit's ball, with the changes
    encoders, series = expand(request.encoders)
    if not encoders:
        raise Missing("no encoder: name at least one, for example zoo:digits-simclr; see holdfast list encoders")
    blind = any(not (opened[e].differentiable if opened and e in opened else is_differentiable(e)) for e in encoders)
    request = replace(request, profile=_profile_for(request.profile, blind))
    ball = _ball(request, source)
    base = open_profile(request.profile, ball)
    measures = apply_changes(base.measures, request.measures, ball) if request.measures else base.measures
    measures = set_parameters(_with_surrogates(measures, request.surrogates, encoders, ball), request.settings, ball)
    if blind:
        measures = tuple(map(_by_queries, measures))

    # Images, which synthetic measures do without
    if request.data is None and (readers := [m for m in measures if not unread([m])]):
        names = ", ".join(dict.fromkeys(map(registry.part_name, readers)))
        raise Missing(
            f"no images for {names}: add --data FOLDER (or a file, or a spec; see holdfast list data); the profile "
            "synbench needs none"
        )

    # What is not written is as in the profile; half of the images are spared for probes, unless they have their own
    images = _fall_back(request.images, base.images)
    learns = any(measure.learns for measure in measures)
    examined, queries = _fall_back(request.examined, base.examined), _fall_back(request.queries, base.queries)
    return Plan(
        encoders,
        NO_DATA if request.data is None else request.data,
        measures,
        validity_panel(measures, examined, queries, request.precision),
        images=images,
        attacked=_fall_back(request.attacked, min(base.attacked, images) // 2 * 2),
        seed=request.seed,
        batch_size=request.batch_size,
        device=request.device,
        skip_corrupt=request.skip_corrupt,
        skip_duplicates=request.skip_duplicates,
        profile=Path(request.profile).stem,
        train=request.train,
        train_images=request.train_images,
        spare=learns and request.attacked is None and request.train is None,
        series=series,
        precision=request.precision,
        compiled=request.compiled,
        shared_searches=_fall_back(request.shared_searches, base.shared_searches),
        allow=request.allow,
        budget=_budget(request.budget, None if request.until else base.budget),
        until=None if request.until is None else until_of(request.until),
        calls=request.calls,
    )


def _profile_for(profile: str, blind: bool) -> str:
    """Return the profile of a plan: where an encoder has no gradient, the one that asks the same by queries."""
    # Only profiles that name another one have their questions asked otherwise
    return profile_table(profile).get(OTHERWISE, "") or profile if blind else profile


def _by_queries(measure: Any) -> Measure:
    """Return a measure without what follows gradients of an audited encoder beside those of others, if it has that."""
    along = getattr(measure, "whitebox", False) and measure.attack.passes.backward
    return replace(measure, whitebox=False) if along else measure


def _fall_back(value: T | None, usual: T) -> T:
    return usual if value is None else value


def _usual_norm(profile: str) -> str:
    """Return the norm of a profile's ball."""
    return profile_table(profile).get("norm", NORM)


def _ball(request: AuditRequest, source: ImageSource | None) -> Ball:
    """Return the ball of an audit: the user's, else its profile's, else what is usual for its images."""
    usual, eps = _usual_norm(request.profile), request.eps
    norm = usual if request.norm is None else spell_norm(request.norm)
    if eps is None and norm == usual:  # in another norm the profile's radius means another size
        eps = profile_table(request.profile).get("eps")

    def shape() -> Shape | None:
        if (images := source or request.data) is None:
            return None
        try:
            return shape_of(open_images(images, seed=request.seed, skip_corrupt=request.skip_corrupt))
        except HoldfastError:  # the audit reads this image too, and says so once it has looked up its encoders
            return None

    return audit_ball(norm, eps, shape)


def refuse_idle_ball(request: AuditRequest) -> None:
    """Refuse a norm or a radius beside a profile whose measures are the same in any ball."""
    profile, norm, eps = request.profile, request.norm, request.eps
    if request.measures or (norm is None and eps is None):
        return
    try:
        asked = [open_profile(profile, audit_ball(name, OTHER, lambda: None)).measures for name in ("linf", "l2")]
    except HoldfastError:  # one of them cannot be asked in such a ball, so it depends on the ball
        return
    if eps is None and (norm is None or spell_norm(norm) == _usual_norm(profile)):
        return  # it says what holds anyway
    if asked[0] == asked[1]:
        names = ", ".join(dict.fromkeys(map(registry.part_name, asked[0])))
        raise Conflict(
            f"{'eps' if norm is None else 'norm'}: expected a profile with a measure in the ball of the audit, but in "
            f"{Path(profile).stem} all of {names} have balls of their own, or none; leave it out, or change a "
            "measure's own ball: --set MEASURE.ball.radius=4/255"
        )


def _with_surrogates(
    measures: tuple[Measure, ...], surrogates: Sequence[str], encoders: Sequence[str], ball: Ball
) -> tuple[Measure, ...]:
    """Return measures with surrogates where they take some: those given, else their own, else the plan's encoders.

    Where surrogates are given and no measure takes any, those of the profile `TRANSFER` are asked too.
    """
    given = [spec for name in surrogates for spec in (encoders if name == EACH else [name])]
    if given and not any(map(_takes_surrogates, measures)):
        measures += open_profile(TRANSFER, ball).measures
    asked: tuple[Any, ...] = measures
    return tuple(
        replace(m, surrogates=tuple(dict.fromkeys(given or m.surrogates or encoders))) if _takes_surrogates(m) else m
        for m in asked
    )


def _takes_surrogates(measure: Any) -> bool:
    return any(field.name == "surrogates" for field in fields(measure))


def _budget(time: str | float | None, usual: float | None) -> float | None:
    """Return seconds; None: no limit."""
    if time is None:
        return usual
    if isinstance(time, str):
        return None if time.strip() == "none" else seconds(time)
    return float(time)


def read_plan(path: Path, over: Mapping[str, Any] = MappingProxyType({})) -> Plan:
    """Return the plan in a TOML file; fields of a request in `over` win over what it says.

    A profile of your own lies beside it.
    """
    keys = {field.name: field.key for field in fields_of(AuditRequest)}
    values = read_toml(path, "plan")
    if str(values.get("profile")).endswith(".toml"):
        values["profile"] = str(path.parent / values["profile"])
    return plan_from(values | {keys[name]: value for name, value in over.items()}, path.name)


def plan_from(values: Mapping[str, Any], where: str) -> Plan:
    """Return the plan that plain data describe, with the keys of a plan file: those of `AuditRequest`."""
    request = read(AuditRequest, values, where)
    with locate_errors(where):
        refuse_idle_ball(request)
        return make_plan(request)
