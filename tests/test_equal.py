"""What is rebuilt of other libraries is equal to the original or refused: some of it, and all that they have (slow)."""

import math

import pytest
from benchmarks.equal import store
from benchmarks.equal.__main__ import chosen
from benchmarks.equal.family import Case, Family, families
from benchmarks.equal.hf import of, processors
from benchmarks.equal.preprocessings import LIMIT

pytestmark = pytest.mark.filterwarnings("ignore")  # of third-party packages, about themselves


def family(limit: float = 1.0) -> Family:
    return Family("Things", "ours", "theirs", "levels", limit, ("torch", "no-such-package"), lambda: iter(()))


@pytest.mark.slow
@pytest.mark.sweep(20)
@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("LevitImageProcessorPil", {"not resized"}),
        pytest.param("MobileViTImageProcessor", {"not resized"}, marks=pytest.mark.slow),
        pytest.param("PoolFormerImageProcessor", {"not resized"}, marks=pytest.mark.slow),
        ("EfficientNetImageProcessor", {"not resized", "not rescaled", "a share"}),
        ("DeiTImageProcessorPil", {"not resized"}),
        ("TimmWrapperImageProcessor", set()),
        ("PixtralImageProcessor", None),
    ],
)
def test_a_processor_in_many_configurations(name, refused):
    cases = {case.name.removeprefix(f"{name}: "): case for case in of(name, processors()[name])}
    assert {key for key, case in cases.items() if case.difference is not None and not case.difference <= LIMIT} == set()
    assert {key for key, case in cases.items() if case.difference is None} == (
        set(cases) if refused is None else refused
    )
    assert all("\n" not in case.refused for case in cases.values())


@pytest.mark.slow(minutes=10)
@pytest.mark.parametrize("name", sorted(families()))
def test_nothing_is_different_that_is_not_refused(name):
    of_name = families()[name]
    found = store.gathered(of_name.cases(), of_name, "2026-01-01")
    assert found.different == ()
    if (kept := store.load().get(name)) is not None and kept.versions == of_name.versions:
        assert (found.equal, found.refused) == (kept.equal, kept.refused), "run python -m benchmarks.equal --write"


def test_what_is_found_is_counted_and_kept(tmp_path):
    cases = [
        Case("a: 1", 0.5),
        Case("a: 2", None, "no"),
        Case("b: 1", None, "pads (x)"),
        Case("b: 2", None, "pads [3]"),
    ]
    found = store.gathered([*cases, Case("c", 1.5), Case("d", math.nan), Case("e", 0.25)], family(), "2026-11-05")
    assert (found.equal, found.refused, found.different) == (2, 2 + 1, ("c", "d"))
    assert (found.largest, found.of, found.never) == (0.5, "a: 1", {"b": "pads (x)"})
    assert found.versions.keys() == {"torch"}
    store.keep("things", found, tmp_path / "kept.json")
    store.keep("more", store.gathered([], family(), "2026-11-06"), tmp_path / "kept.json")
    assert store.load(tmp_path / "kept.json")["things"] == found
    assert list(store.load(tmp_path / "kept.json")) == ["more", "things"]


def test_every_family_is_kept_without_a_difference():
    assert {name: found.different for name, found in store.load().items()} == dict.fromkeys(families(), ())


def test_families_are_chosen_by_name():
    assert list(chosen("timm")) == ["timm"]
    assert list(chosen(None)) == sorted(families())
    with pytest.raises(SystemExit, match="got nosuch"):
        chosen("timm,nosuch")
