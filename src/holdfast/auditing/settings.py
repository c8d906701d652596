"""Changing one parameter of a plan's measures: `--set breakaway_risk.ball.radius=0.1`."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.auditing.panel import DEFAULT_BALL
from holdfast.config.overrides import distinct, part
from holdfast.core import Ball, HoldfastError, Measure, registry
from holdfast.runtime.checked import shown
from holdfast.runtime.errors import unknown
from holdfast.storage.documents import TooDeep, parse_json


def set_parameters(
    measures: Iterable[Measure], settings: Iterable[str], ball: Ball = DEFAULT_BALL
) -> tuple[Measure, ...]:
    """Return the measures with settings such as "universal_quantile.attack.steps=20" applied.

    "*" as the measure means all of them that have the parameter. A part is replaced by its name
    ("breakaway_risk.attack=apgd"), or by a JSON object; what these do not say is as in `changes.part`.
    Measures that become equal are asked once.

    Args:
        measures: of the plan.
        settings: in their order.
        ball: of the audit.

    Raises:
        HoldfastError: a setting that is not of this form, or names no measure or no parameter.
    """
    specs = [registry.spec(measure) for measure in measures]
    for setting in settings:
        path, equals, text = setting.partition("=")
        measure, dot, parameter = path.strip().partition(".")
        if not equals or not dot or not parameter:
            raise HoldfastError(f"--set: expected measure.parameter=value, got {setting!r}")
        chosen = [spec for spec in specs if measure in ("*", spec["name"])]
        if not chosen:
            raise unknown("measure of this plan", measure, {spec["name"] for spec in specs})
        if measure == "*":
            fits = [spec for spec in chosen if parameter.partition(".")[0] in spec]
            chosen = fits or chosen  # where none has it, the error says what there is
        for spec in chosen:
            _assign(spec, parameter.split("."), _value(text.strip()), setting, registry.spec(ball))
    return distinct(registry.build(spec) for spec in specs)


def _value(text: str) -> Any:
    try:
        return parse_json(text)
    except TooDeep as error:
        raise HoldfastError(f"--set: {shown(text)}: {error}; write it flatter") from None
    except ValueError:
        return text


def _assign(spec: dict[str, Any], path: list[str], value: Any, setting: str, ball: Mapping[str, Any]) -> None:
    *parents, last = path
    for name in parents:
        if not isinstance(spec.get(name), Mapping):
            parts = [key for key, inner in spec.items() if isinstance(inner, Mapping)]
            raise unknown(f"part in {setting!r}", name, parts)
        ball, spec = spec.get("ball", ball), spec[name]
    if last not in spec or last in ("kind", "name"):
        raise unknown(f"parameter in {setting!r}", last, [key for key in spec if key not in ("kind", "name")])
    old = spec[last]
    if isinstance(old, Mapping) and isinstance(value, str):
        value = {"name": value}
    elif value in ("inf", "Infinity") and isinstance(old, float):
        value = math.inf
    elif isinstance(old, bool) != isinstance(value, bool) or isinstance(old, str) != isinstance(value, str):
        if old is not None:
            raise HoldfastError(f"--set: {setting!r}: expected a {type(old).__name__} like {old!r}")
    elif isinstance(old, list) and not isinstance(value, list):
        value = [value]
    elif isinstance(old, int) and isinstance(value, float):
        raise HoldfastError(f"--set: {setting!r}: expected a whole number like {old!r}")
    spec[last] = part(value, old, spec.get("ball", ball))
