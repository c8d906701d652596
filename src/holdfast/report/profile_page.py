"""What a profile's page says: worked out from its plan or, for Holdfast's own profiles, read from a file without torch.

`profiles.json` holds what takes long to work out, such as the passes of each question; `make surface` writes it, and a
test holds it against the plans.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.auditing.profile_files import descriptions, profile_names
from holdfast.core import registry
from holdfast.report.numbers import plural

if TYPE_CHECKING:
    from holdfast.auditing.profile import Profile

WRITTEN = Path(__file__).with_name("profiles.json")
"""The pages of Holdfast's own profiles: name -> fields of `ProfilePage`, but for texts that stand elsewhere."""


@dataclass(frozen=True)
class Question:
    """What a profile asks with one measure.

    Attributes:
        text: the question.
        measure: its name in the profile, and parameters that are not the measure's own defaults.
        per_image: encoder passes that it takes for an image by itself.
        added: passes that it adds to those of the questions before it, for all images.
    """

    text: str
    measure: str
    per_image: float
    added: float


@dataclass(frozen=True)
class ProfilePage:
    """What a profile's page says.

    Attributes:
        description: the profile in a line.
        ball: the ε of its questions.
        images: how many, at most.
        attacked: how many of them are attacked.
        questions: in its order.
        checks: how many validity checks.
        passes: of all questions and checks.
        budget: seconds after which no further round begins, if any.
    """

    description: str
    ball: str
    images: int
    attacked: int
    questions: tuple[Question, ...]
    checks: int
    passes: float
    budget: float | None


def profile_page(name: str) -> ProfilePage:
    """Return the page of a profile; parts of other packages, or of a user's own, may change what it says."""
    if name in profile_names() and registry.all_own():
        return read(name)
    return work_out(name)


def read(name: str) -> ProfilePage:
    """Return the page of one of Holdfast's own profiles, as files say it."""
    data = json.loads(WRITTEN.read_text(encoding="utf-8"))[name]
    data["questions"] = tuple(Question(_text(measure), measure, *passes) for measure, *passes in data["questions"])
    return ProfilePage(descriptions()[name], **data)


def work_out(name: str) -> ProfilePage:
    """Return the page of a profile, as its plan says it."""
    from holdfast.auditing.plan import Plan, merge, total_passes, validity_panel
    from holdfast.auditing.profile import profile

    chosen = profile(name)
    plan = Plan(  # of which encoder and images, does not matter for its passes
        ("any",),
        "any",
        chosen.measures,
        validity_panel(chosen.measures, chosen.examined, chosen.queries),
        images=chosen.images,
        attacked=chosen.attacked,
        spare=any(measure.learns for measure in chosen.measures),
    )
    split = plan.split(chosen.images)
    readers = [(key, measure.prerequisites()) for key, measure in plan.measures_by_name.items()]
    so_far = [total_passes(merge(readers[:number]), split).work for number in range(len(readers) + 1)]
    questions = [
        Question(
            measure.question,
            _with_parameters(key, measure),
            sum(observation.passes.work for observation in measure.prerequisites()),
            so_far[number + 1] - so_far[number],
        )
        for number, (key, measure) in enumerate(plan.measures_by_name.items())
    ]
    return ProfilePage(
        chosen.description,
        _ball(chosen),
        chosen.images,
        split.attacked,
        tuple(questions),
        len(plan.checks),
        plan.predict(chosen.images).work,
        chosen.budget,
    )


def _text(measure: str) -> str:
    """Return the question of a measure."""
    cls: Any = registry.find_outline("measures", re.split(r"[\[:]", measure)[0])
    return cls.question


def _ball(chosen: "Profile") -> str:
    """Return the ε of a profile, or what is taken for each kind of images."""
    from holdfast.auditing.balls import NORM, USUAL, audit_ball, in_words

    if chosen.eps is not None:
        return f"{in_words(audit_ball(chosen.norm, chosen.eps, lambda: None), None)}, unless --eps says otherwise."
    kinds = ", ".join(f"{kind.ball(NORM, None).radius_text} for {kind.images}" for kind in USUAL)
    return f"ε by the images, unless --eps says otherwise: in ℓ∞ {kinds}."


def _with_parameters(key: str, measure: Any) -> str:
    """Return a measure's name, its attacks, and the parameters that are not the measure's own defaults."""
    from holdfast.config.overrides import defaults

    spec = registry.spec(measure)
    usual = defaults("measures", spec["name"], spec.get("ball", {}))
    fields = [
        f"{name} = {_brief(value)}"
        for name, value in spec.items()
        if name != "ball" and (value != usual.get(name) or "steps" in str(value) or name == "steps")
    ]
    return f"{key}: {', '.join(fields)}" if fields else key


def _brief(value: Any) -> str:
    """Return a part by its name, with the steps that it takes; several of them in brackets."""
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(_brief, value))})"
    if not _has_name(value):
        return str(value)
    inner = [_brief(parts) for parts in value.values() if isinstance(parts, list) and any(map(_has_name, parts))]
    steps = f" of {plural(value['steps'], 'step')}" if value.get("steps") else ""
    return " ".join([value["name"], *inner]) + steps


def _has_name(value: Any) -> bool:
    return isinstance(value, dict) and "name" in value
