"""A measure that is a function of a user's own, of clean and of attacked representations."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, overload

import torch
from torch import Tensor

from holdfast.config import overrides, part_syntax
from holdfast.core import Attack, Ball, Objective, Subject, Table, registry
from holdfast.core.function_part import (
    FunctionPart,
    measure_values,
    name_function,
    part_of,
    takes_target,
)
from holdfast.parts.measures.shared.attack_measure import AttackMeasure
from holdfast.parts.objectives.shared.own_loss import Function
from holdfast.parts.objectives.shared.own_loss import loss as own_loss
from holdfast.parts.objectives.targeted import Targeted
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import pair_of, partners
from holdfast.runtime.checked import check_arguments
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class OwnMeasure(FunctionPart, AttackMeasure):
    """A function of (f(x), f(x̂)), or of (f(x), f(x̂), f(t)) where each image is attacked towards another, t.

    It also gets the clean representations of all images where it names an argument `population`.

    Table: `value@STEP`, one row per attacked image, and `pair` where it has targets. `divergence` is not used.

    Attributes:
        code: the fingerprint of the function.
    """

    code: str = ""

    takes_target: ClassVar[bool] = False
    takes_population: ClassVar[bool] = False
    per_image = "value"

    def __post_init__(self) -> None:
        AttackMeasure.__post_init__(self)
        FunctionPart.__post_init__(self)

    def observe(self, subject: Subject) -> Table:
        """Return the function's value for every attacked image, at every read-out."""
        population, attacked = self.reps(subject)
        positions = torch.arange(subject.attacked)
        clean, target = population[positions].float(), population[partners(positions)].float()
        named = {"population": population.float()} if self.takes_population else {}
        table: Table = {"pair": pair_of(positions)} if self.targeted else {}
        return table | {
            f"value@{step}": measure_values(
                self,
                (clean, reps.float(), *((target,) if self.takes_target else ())),
                self.statistic,
                self.unit,
                **named,
            )
            for step, reps in attacked.items()
        }


class MeasureOfFunction(Mapping[str, Any]):
    """A function that is registered as a measure: called as before, and taken by audits as a table of its name.

    Args:
        function: the function.
        part: its class.
    """

    def __init__(self, function: Function, part: type[OwnMeasure]):
        self._part, self._name = part, registry.part_name(part)
        self.__wrapped__ = function
        functools.update_wrapper(self, function)

    def __call__(self, *reps: Tensor, **named: Tensor) -> Any:
        """Call the function."""
        return self.__wrapped__(*reps, **named)

    def __getitem__(self, key: str) -> str:
        # A notebook may define the name again: a plan made with the first
        # function must not run the second
        if registry.find("measures", self._name) is not self._part:
            raise BadValue(
                f"{self._name}: expected one function of this name, got another since; name them apart: "
                "holdfast.measure(..., name='my_name')"
            )
        return {"name": self._name}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(("name",))

    def __len__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return f"the measure {self._name}"


@overload
def measure(function: Function, **options: Any) -> MeasureOfFunction: ...
@overload
def measure(function: None = None, **options: Any) -> Callable[[Function], MeasureOfFunction]: ...
@check_arguments
def measure(
    function: Function | None = None,
    *,
    name: str | None = None,
    better: Literal["lower", "higher"] = "lower",
    unit: Literal["share", "ratio", "similarity", "pixels"] = "ratio",
    statistic: Literal["mean", "median", "share"] = "mean",
    attack: Attack | str | None = None,
    ball: Ball | str | None = None,
    loss: Objective | Function | str | None = None,
    title: str | None = None,
    question: str | None = None,
    how_to_read: str | None = None,
) -> Any:
    """Return a function as a measure: what an attack does to representations, in your own words.

        @holdfast.measure
        def turned(clean, attacked):
            return 1 - torch.cosine_similarity(clean, attacked)

        record = holdfast.audit(model, images, measures=turned)
        record["turned"]

    It is registered under its name, for commands, plans and `--measure 'turned[attack.steps=20]'`. The record holds its
    fingerprint.

    Args:
        function: maps clean representations [N, D] and those of the same images attacked [N, D] to one value per image
            [N], both float32. With a third argument the attack is targeted, and it gets the representations [N, D] of
            the images that each is attacked towards. An argument called `population` gets the clean representations
            [P, D] of all images of the audit, of which the attacked ones are the first.
        name: of the measure; that of the function where None, "own_measure" for a lambda.
        better: which values are more robust.
        unit: of the values; shares are from 0 to 1.
        statistic: the score, with its interval: the mean or the median over images, or the share of values that are 1,
            the others being 0.
        attack: what searches for the attacked images, an attack or a text such as "pgd[steps=20]"; APGD of 50 steps
            where None.
        ball: where it searches, a ball or a text such as "linf[radius=4/255]"; the audit's where None.
        loss: what it maximises: an objective, its name, or a function, see `loss`; how far representations move (or,
            with targets, how near they come) where None.
        title: what people call it.
        question: what it asks, in one sentence.
        how_to_read: what its values mean.

    Raises:
        HoldfastError: a function of other arguments, a name that is taken, or an objective that does not fit.
    """
    if function is None:
        # Used as a decorator with arguments: the options wait for the function
        options = {key: value for key, value in locals().items() if key != "function"}
        return lambda function: measure(function, **options)
    # A function that is registered again, with other options, is taken out of its wrapper
    function = function.__wrapped__ if isinstance(function, MeasureOfFunction) else function
    called = name_function(function, name, "own_measure")
    asks = (inspect.getdoc(function) or "").partition("\n")[0]
    everyone = "population" in _arguments(function)
    # Given by name, wherever it stands, so what is left is as without it
    rest = functools.partial(function, population=None) if everyone else function
    takes, targeted = takes_target(rest, called, "clean", "attacked")
    objective = _objective(loss, called, targeted)
    part = part_of(
        "measures",
        OwnMeasure,
        function,
        called,
        [
            ("attack", Attack, _part(attack, AttackMeasure.attack)),
            ("objective", Objective, objective),
            *([("ball", Ball, _part(ball, AttackMeasure.ball))] if ball is not None else []),
        ],
        targeted=targeted or objective.needs_target,
        takes_target=takes,
        takes_population=everyone,
        better=better,
        # Of values 0 and 1 the statistic is a share, whatever was said
        unit="share" if statistic == "share" else unit,
        statistic=statistic,
        question=question or (asks if asks.endswith("?") else f"What does {called} return for attacked images?"),
        how_to_read=how_to_read
        or f"The {statistic} over attacked images of what {called} returns; {better} is more robust.",
        reference=f"the function {called} of {getattr(function, '__module__', None)}",
        **({"title": title} if title else {}),
    )
    return MeasureOfFunction(function, part)


def _arguments(function: Function) -> Iterable[str]:
    """Return the names of the arguments of a function; none of one that does not say."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ()


def _objective(given: Objective | Function | str | None, name: str, targeted: bool) -> Objective:
    """Return what the attack of a measure maximises."""
    usual = Targeted() if targeted else Untargeted()
    if given is None or isinstance(given, (str, Objective)):
        return _part(given, usual)
    return own_loss(given, name=f"{name}_loss" if getattr(given, "__name__", "") == "<lambda>" else None)


def _part(given: Any, usual: Any) -> Any:
    """Return a part, which may be written as a text; see `part_syntax.part_table`."""
    if not isinstance(given, str):
        return usual if given is None else given
    return registry.build(overrides.part(part_syntax.part_table(given), registry.spec(usual), {}))
