"""From what a user says, on the command line or in a TOML file, to a plan."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from holdfast.auditing.balls import NORM, audit_ball, shape_of
from holdfast.auditing.panel import validity_panel
from holdfast.auditing.plan import Plan, unread
from holdfast.auditing.profile import profile as open_profile
from holdfast.auditing.profile import profile_table
from holdfast.auditing.series import expand
from holdfast.auditing.until import until_of
from holdfast.config.overrides import Change, apply_changes, set_parameters
from holdfast.config.reader import arguments, locate_errors
from holdfast.core import Ball, HoldfastError, ImageSource, Measure, registry
from holdfast.core.threat import Shape
from holdfast.runtime.durations import seconds
from holdfast.sources.data import open_images
from holdfast.storage.documents import read_toml

KEYS: dict[str, Any] = {
    "encoders": tuple[str, ...], "data": str, "profile": str, "norm": str, "eps": float | str, "set": tuple[str, ...],
    "measures": tuple[str | dict, ...], "images": int, "attacked": int, "seed": int, "batch_size": int,
    "device": str, "skip_corrupt": bool, "skip_duplicates": bool, "train": str, "train_images": int, "precision": str,
    "compiled": bool, "shared_searches": bool, "allow": tuple[str, ...], "examined": int, "queries": int,
    "budget": str | float, "until": str, "surrogates": tuple[str, ...],
}  # fmt: skip
"""Keys of a plan file and their types."""

TRANSFER = "transfer"
"""The profile whose measures surrogates add to those that take none."""

EACH = "each"
"""Among surrogates: all encoders of the plan."""

OTHER = 0.0123
"""A radius that nobody takes, to see whether measures depend on the audit's ball."""

NO_DATA = "gaussian"
"""Images of an audit that asks nothing about images: noise of the encoder's own size."""


def make_plan(
    encoders: Iterable[str],
    data: str | None,
    *,
    profile: str = "quick",
    norm: str | None = None,
    eps: float | str | None = None,
    source: ImageSource | None = None,
    settings: Sequence[str] = (),
    measures: Sequence[Change] = (),
    images: int | None = None,
    attacked: int | None = None,
    train: str | None = None,
    train_images: int | None = None,
    examined: int | None = None,
    queries: int | None = None,
    shared_searches: bool | None = None,
    allow: str | Sequence[str] = (),
    budget: str | float | None = None,
    until: str | None = None,
    seed: int = 0,
    device: str = "cpu",
    batch_size: int | None = None,
    precision: str = "float32",
    compiled: bool = False,
    skip_corrupt: bool = False,
    skip_duplicates: bool = False,
    surrogates: str | Sequence[str] = (),
) -> Plan:
    """Return the plan of a profile, changed as asked.

    Args:
        encoders: encoder specs; `series:FOLDER` stands for all checkpoints in a folder, see `audit.series`.
        data: data spec; None where the measures need none, `NO_DATA` then stands in for the panel's checks.
        profile: which profile, or the path of a TOML file with one of your own, see `profile`.
        norm: of the ball, "linf", "l2" or "patch[share=0.05]"; the profile's, or ℓ∞, where None.
        eps: its radius in pixels of a [0, 1] image, 0.05 or "4/255"; the profile's where None, else what is usual for
            such images, of which one is then read; see `balls`.
        source: images that are open already, instead of the data spec.
        settings: changes of single parameters, see `set_parameters`.
        measures: what to ask instead of all of the profile's measures, each as the profile has it but for the fields
            that are written: names, tables {"name": ..., fields}, or measures; see `apply_changes`.
        images: how many of the images; the profile's where None.
        attacked: how many of them are attacked; the profile's where None.
        train: data spec of the labelled images that probes learn from; the images that are not attacked where None.
        train_images: how many of them; all where None.
        examined: images on which the checks that cost passes are made; the same.
        queries: budget of the gradient-free attack among the checks; the same.
        shared_searches: whether what any search met counts for every measure of its ball; the profile's where None.
        allow: names of checks whose failure is accepted.
        budget: time after which an audit in rounds begins no further round, such as 90s, 2m, 1h or seconds; "none": no
            limit. The profile's where None, unless it says until when.
        until: what else ends it, see `until_of`.
        seed: the one seed.
        device: where encoders run, as torch names it.
        batch_size: images per encoder pass; by the image's size where None.
        precision: of searches, see `Plan`.
        compiled: whether the forward pass runs through torch.compile.
        skip_corrupt: leave out files that cannot be read, instead of stopping.
        skip_duplicates: leave out images that look like others.
        surrogates: encoders that are attacked in the place of each encoder, for measures of transferred attacks; `EACH`
            stands for all encoders of the plan.
    """
    # Encoders; the measures of the profile in the audit's ball, with the changes
    encoders, series = expand(encoders)
    if not encoders:
        raise HoldfastError("no encoder: name at least one, for example zoo:digits-simclr; see holdfast list encoders")
    ball = _ball(profile, norm, eps, source or data, seed, skip_corrupt)
    base = open_profile(profile, ball)
    questions = apply_changes(base.measures, measures, ball) if measures else base.measures
    others = (surrogates,) if isinstance(surrogates, str) else surrogates
    questions = set_parameters(_with_surrogates(questions, others, encoders, ball), settings, ball)

    # Images, which synthetic measures do without
    if data is None:
        if readers := [m for m in questions if not unread([m])]:
            names = ", ".join(dict.fromkeys(map(registry.part_name, readers)))
            raise HoldfastError(
                f"no images for {names}: add --data FOLDER (or a file, or a spec; see holdfast list data); the profile "
                "synbench needs none"
            )
        data = NO_DATA

    # What is not written is as in the profile; half of the images are spared for probes, unless they have their own
    population = base.images if images is None else images
    examined = base.examined if examined is None else examined
    queries = base.queries if queries is None else queries
    learns = any(measure.learns for measure in questions)
    return Plan(
        encoders,
        data,
        questions,
        validity_panel(questions, examined, queries, precision),
        images=population,
        attacked=min(base.attacked, population) // 2 * 2 if attacked is None else attacked,
        seed=seed,
        batch_size=batch_size,
        device=device,
        skip_corrupt=skip_corrupt,
        skip_duplicates=skip_duplicates,
        profile=Path(profile).stem,
        train=train,
        train_images=train_images,
        spare=learns and attacked is None and train is None,
        series=series,
        precision=precision,
        compiled=compiled,
        shared_searches=base.shared_searches if shared_searches is None else shared_searches,
        allow=(allow,) if isinstance(allow, str) else tuple(allow),
        budget=_budget(budget, None if until else base.budget),
        until=None if until is None else until_of(until),
    )


def _ball(
    name: str, norm: str | None, eps: float | str | None, data: str | ImageSource | None, seed: int, skip: bool
) -> Ball:
    """Return the ball of an audit: the user's, else its profile's, else what is usual for its images."""
    own = profile_table(name)
    usual = own.get("norm", NORM)
    if eps is None and norm in (None, usual):
        eps = own.get("eps")

    def shape() -> Shape | None:
        try:
            return None if data is None else shape_of(open_images(data, seed=seed, skip_corrupt=skip))
        except HoldfastError:  # the audit reads this image too, and says so once it has looked up its encoders
            return None

    return audit_ball(usual if norm is None else norm, eps, shape)


def refuse_idle_ball(profile: str, norm: str | None, eps: float | str | None) -> None:
    """Refuse a norm or a radius beside a profile whose measures are the same in any ball."""
    if norm is None and eps is None:
        return
    try:
        asked = [open_profile(profile, audit_ball(name, OTHER, lambda: None)).measures for name in ("linf", "l2")]
    except HoldfastError:  # one of them cannot be asked in such a ball, so it depends on the ball
        return
    if norm in (None, profile_table(profile).get("norm", NORM)) and eps is None:
        return  # it says what holds anyway
    if asked[0] == asked[1]:
        names = ", ".join(dict.fromkeys(map(registry.part_name, asked[0])))
        raise HoldfastError(
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


def read_plan(path: Path, **overrides: Any) -> Plan:
    """Return the plan in a TOML file; `overrides` that are not None win over it.

    A profile of your own lies beside it.
    """
    values = read_toml(path, "plan")
    if str(values.get("profile")).endswith(".toml"):
        values["profile"] = str(path.parent / values["profile"])
    return plan_from(values | {key: value for key, value in overrides.items() if value is not None}, path.name)


def plan_from(values: Mapping[str, Any], where: str) -> Plan:
    """Return the plan that plain data describe, with the keys of a plan file."""
    plan = arguments(KEYS, values, where)
    if "encoders" not in plan:
        raise HoldfastError(f"the plan {where} has no 'encoders'")
    encoders, data = plan.pop("encoders"), plan.pop("data", None)
    plan["settings"] = plan.pop("set", ())
    with locate_errors(where):
        return make_plan(encoders, data, **plan)
