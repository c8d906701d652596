"""Every part of every kind: found by name, described, and the same after a round trip through JSON."""

import dataclasses
import inspect
import json
import sys

import pytest

from holdfast.core import (
    Attack,
    Certifier,
    Check,
    Divergence,
    Failure,
    ImageSource,
    Measure,
    Method,
    Objective,
    Observation,
    Probe,
    Threat,
    registry,
)
from holdfast.core.data_source import DataSource
from holdfast.core.disturbance import Disturbance
from holdfast.core.encoder_source import EncoderSource
from holdfast.core.engine import Engine
from holdfast.core.quantity import Quantity
from holdfast.numerics.geometry.rescaling import Rescaling
from holdfast.parts.learners.shared.learner import Learner
from holdfast.parts.objectives.loss import Loss
from holdfast.parts.smoothing.shared.certificate import Certificate
from holdfast.runtime.errors import BadValue, Failed, UnknownName

BASES = {
    "data": DataSource,
    "threats": Threat,
    "objectives": Objective,
    "attacks": Attack,
    "probes": Probe,
    "estimators": object,  # rules of drawing, and splitting
    "learners": Learner,
    "failures": Failure,
    "quantities": Quantity,
    "disturbances": Disturbance,
    "certifiers": Certifier,
    "divergences": Divergence,
    "rescalings": Rescaling,
    "encoders": EncoderSource,
    "smoothing": Certificate,
    "observations": Observation,
    "measures": Measure,
    "checks": Check,
    "methods": Method,
    "engines": Engine,
}
PARTS = [(kind, name) for kind in registry.KINDS for name in registry.names(kind)]


def example(kind: str, name: str) -> object:
    cls = registry.find(kind, name)
    return cls(function=lambda reps, clean, target: reps.sum(1)) if cls is Loss else cls()


def test_parts_are_described_frozen_dataclasses(subtests: pytest.Subtests) -> None:
    for kind, name in PARTS:
        with subtests.test(f"{kind}/{name}"):
            cls = registry.find(kind, name)
            assert issubclass(cls, BASES[kind])
            assert dataclasses.is_dataclass(cls)
            assert cls.__dataclass_params__.frozen
            called = cls.__name__.removesuffix("Source") if kind == "data" else cls.__name__  # beside its images
            assert called == "".join(word.capitalize() for word in name.split("_"))
            assert registry.part_name(cls) == name
            assert inspect.getdoc(cls)
            own = [field.name for field in dataclasses.fields(cls) if field.name in cls.__annotations__]
            inherited = "".join(inspect.getdoc(base) or "" for base in cls.__mro__)
            assert [field for field in own if f"{field}:" not in inherited] == [], "parameters that are not described"


def test_a_file_holds_one_part_and_what_it_opens() -> None:
    for kind, name in PARTS:
        module = sys.modules[registry.find(kind, name).__module__]
        own = {value for key, value in vars(module).items() if isinstance(value, type) and not key.startswith("_")}
        others = {cls for cls in own if cls.__module__ == module.__name__} - {registry.find(kind, name)}
        assert all(kind == "data" and issubclass(cls, ImageSource) for cls in others), others


def test_parts_survive_json(subtests: pytest.Subtests) -> None:
    for kind, name in PARTS:
        with subtests.test(f"{kind}/{name}"):
            part = example(kind, name)
            if isinstance(part, Loss):
                with pytest.raises(BadValue, match="JSON"):
                    registry.spec(part)
                continue
            data = json.loads(json.dumps(registry.spec(part)))
            built = registry.part(kind, data) if isinstance(data, str) else registry.build(data)
            assert built == part
            assert hash(built) == hash(part)


def test_unknown_parameters_are_named(subtests: pytest.Subtests) -> None:
    for kind, name in PARTS:
        with subtests.test(f"{kind}/{name}"), pytest.raises(UnknownName, match="no_such"):
            registry.build({"kind": kind, "name": name, "no_such": 1})


def test_unknown_name_suggests() -> None:
    with pytest.raises(UnknownName, match=r"'breakaway_risk'\?"):
        registry.find("measures", "breakaway_rsk")
    with pytest.raises(UnknownName, match="gadgets"):
        registry.names("gadgets")


def test_measures_say_what_they_mean(subtests: pytest.Subtests) -> None:
    for name in registry.names("measures"):
        with subtests.test(name):
            measure = registry.find("measures", name)()
            assert measure.better in ("lower", "higher")
            assert measure.unit in ("share", "ratio", "similarity", "pixels")
            assert measure.question.endswith("?")
            assert all((measure.how_to_read, measure.reference, measure.column))


def test_observations_join_with_themselves(subtests: pytest.Subtests) -> None:
    for name in registry.names("observations"):
        with subtests.test(name):
            observation = registry.find("observations", name)()
            joined = observation.join(observation)
            assert joined.key() == observation.key()
            assert joined.passes == observation.passes


def test_parts_join_through_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclasses.dataclass
    class Point:
        name: str

        def load(self) -> type:
            return Foreign

    class Points:
        def select(self, group: str) -> list[Point]:
            return [Point("foreign"), Point("l2")] if group == "holdfast.threats" else []

    @dataclasses.dataclass(frozen=True)
    class Foreign(registry.find("threats", "linf")):
        """A ball from another package."""

    registry.forget()
    monkeypatch.setattr(registry, "entry_points", lambda: Points())
    try:
        assert "foreign" in registry.names("threats")
        part = registry.build({"kind": "threats", "name": "foreign", "radius": 0.2})
        assert isinstance(part, Foreign)
        assert registry.spec(part) == {"kind": "threats", "name": "foreign", "radius": 0.2}
        assert registry.find_outline("threats", "l2") is Foreign  # which takes the place of ours
    finally:
        registry.forget()


def test_a_package_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclasses.dataclass
    class Point:
        name: str = "foreign"

        def load(self) -> type:
            raise ImportError("no module named elsewhere")

    class Points:
        def select(self, group: str) -> list[Point]:
            return [Point()] if group == "holdfast.threats" else []

    registry.forget()
    monkeypatch.setattr(registry, "entry_points", lambda: Points())
    try:
        with pytest.raises(Failed) as refused:
            registry.find("threats", "foreign")
    finally:
        registry.forget()
    expected = "the package of the threat 'foreign', while it was imported: ImportError: no module named elsewhere"
    assert str(refused.value) == expected


@pytest.mark.usefixtures("own_parts_forgotten")
def test_parts_join_for_as_long_as_the_process_lives() -> None:
    @dataclasses.dataclass(frozen=True)
    class SmallBall(registry.find("threats", "linf")):
        """A ball of a script."""

    with pytest.raises(BadValue, match="SmallBall"):
        registry.spec(SmallBall(0.1))
    assert registry.register("threats")(SmallBall) is SmallBall
    assert "small_ball" in registry.names("threats")
    assert registry.build(registry.spec(SmallBall(0.1))) == SmallBall(0.1)
    again = dataclasses.dataclass(frozen=True)(type("SmallBall", (SmallBall,), {}))  # a cell that runs twice
    registry.register("threats")(again)
    assert type(registry.build(registry.spec(again(0.1)))) is again


@pytest.mark.usefixtures("own_parts_forgotten")
def test_what_cannot_be_registered_is_refused() -> None:
    linf = registry.find("threats", "linf")
    with pytest.raises(UnknownName, match=r"'threats'\?"):
        registry.register("threat")
    with pytest.raises(BadValue, match="linf"):
        registry.register("threats")(dataclasses.dataclass(frozen=True)(type("Linf", (linf,), {})))
    with pytest.raises(BadValue, match="Plain"):
        registry.register("threats")(type("Plain", (), {}))
