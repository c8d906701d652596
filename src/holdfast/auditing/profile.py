"""Ready-made plans, one TOML file each: what a profile asks, of how many images, how thoroughly checked."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.auditing import profile_files
from holdfast.auditing.balls import NORM, audit_ball
from holdfast.auditing.profile_files import profile_names
from holdfast.auditing.request import AuditRequest
from holdfast.config.overrides import Change, apply_changes
from holdfast.config.part_syntax import part_table
from holdfast.config.reader import arguments, kinds_of, locate_errors, read
from holdfast.config.tables import Table, over, resolve_inheritance, spread
from holdfast.core import Ball, Measure, registry
from holdfast.runtime.checked import Checked
from holdfast.runtime.durations import seconds
from holdfast.runtime.errors import unknown
from holdfast.storage.documents import read_toml

OF_AN_AUDIT = ("images", "attacked", "examined", "queries", "shared_searches", "budget", "norm", "eps")
"""What a profile may say of an audit."""

OTHERWISE = "without_gradients"
"""The key that names who asks the same of encoders without a gradient."""

KEYS: dict[str, Any] = {
    **{key: kinds_of(AuditRequest)[key] for key in OF_AN_AUDIT},
    **dict.fromkeys(("like", "description", OTHERWISE), str),
    "defaults": dict, "measures": tuple[str | dict, ...],
}  # fmt: skip
"""Keys of a profile and their types."""


@dataclass(frozen=True)
class Profile(metaclass=Checked):
    """What a profile fixes: the measures, how many images, and how thoroughly they are checked.

    Attributes:
        description: one line for the command line's help.
        measures: the questions, in the audit's ball.
        norm: of the audit's ball, where the user names none.
        eps: its radius, where the user names none; None: what is usual for the images.
        images: size of the population at most.
        attacked: how many of them are attacked at most.
        examined: images on which the checks that cost passes are made.
        queries: budget of the gradient-free attack that looks for masked gradients.
        shared_searches: whether what any search met counts for every measure, see `Plan`.
        budget: seconds after which an audit in rounds begins no further round, unless something else is said; None: it
            is made in one go.
        without_gradients: the profile that asks its questions of encoders without a gradient; "": there is none. A file
            that lies over another one does not take this over, for it asks otherwise.
    """

    description: str
    measures: tuple[Measure, ...]
    images: int
    attacked: int
    examined: int = 8
    queries: int = 200
    shared_searches: bool = True
    norm: str = NORM
    eps: float | str | None = None
    budget: float | None = None
    without_gradients: str = ""


def profile(name: str, ball: Ball | None = None) -> Profile:
    """Return a profile in a ball.

    Its file has the attributes of `Profile`; `measures` are names and tables as in a plan, see `apply_changes`, all in
    the audit's ball. `[defaults]` are fields that each measure which has them begins with. `like` names a profile (or a
    file beside this one) over which the file lies, see `over`.

    Args:
        name: see `profile_names`, or the path of a TOML file.
        ball: of the audit; None: what it says itself, or what is usual for images of which nothing is known.
    """
    table = profile_table(name)
    where = f"profile {Path(name).stem}"
    common = table.pop("defaults", {})
    with locate_errors(where):
        ball = ball or audit_ball(table.get("norm", NORM), table.get("eps"), lambda: None)
        table["measures"] = apply_changes((), _apply_defaults(table.get("measures", ()), common), ball)
    if "budget" in table:
        table["budget"] = seconds(table["budget"], f"{where}: budget")
    return read(Profile, table, where)


def profile_table(name: str) -> Table:
    """Return what the file of a profile says, laid over the one that it is `like`."""

    def find(like: str) -> Table:
        if like.endswith(".toml"):
            return read_toml(Path(name).parent / like, "profile")
        if like not in profile_names():
            raise unknown("profile", like, profile_names())
        return read_toml(profile_files.FOLDER / f"{like}.toml", "profile")

    where = Path(name).name
    own = where if name.endswith(".toml") else name
    table = arguments(KEYS, resolve_inheritance({"like": own}, find, where), where)
    # Another profile asks the same as this file, and not as one that lies over it
    if OTHERWISE not in find(own):
        table.pop(OTHERWISE, None)
    return table


def _apply_defaults(measures: Iterable[Change], common: Mapping[str, Any]) -> list[Change]:
    """Return measures that begin with those fields of `[defaults]` that they have."""
    begun: list[Change] = []
    fields: set[str] = set()
    for measure in spread(measures):
        table = part_table(measure) if isinstance(measure, str) else measure
        if isinstance(table, Mapping) and isinstance(name := table.get("name"), str):
            own = {field.name for field in dataclasses.fields(registry.find("measures", name))}
            fields |= own
            table = over({key: value for key, value in common.items() if key in own}, table)
        begun.append(table)
    for key in common:
        if fields and key not in fields:
            raise unknown("parameter of its measures in [defaults]", key, fields)
    return begun
