"""`series:FOLDER` on the way to a plan: order, names, options; and where checkpoints stand on an axis."""

from pathlib import Path

import pytest
import torch

from holdfast.auditing.plan import Plan
from holdfast.auditing.plan_file import make_plan, read_plan
from holdfast.auditing.request import AuditRequest
from holdfast.auditing.series import Series, expand, natural, series_entries
from holdfast.core import HoldfastError
from holdfast.core.source_spec import parse
from holdfast.parts.measures.corruptions.corruption_drift import CorruptionDrift
from holdfast.report.series import places
from holdfast.runtime.errors import BadData, BadValue, Missing, NotEnough, UnknownName


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "moco"
    (folder / "late").mkdir(parents=True)
    for name in ("epoch10", "epoch2", "epoch1", "best & last", "late/epoch20"):
        (folder / f"{name}.safetensors").write_text("")
    (folder / "epoch3.onnx").write_text("")
    (folder / "notes.txt").write_text("")
    return folder


def labels(specs: tuple[str, ...]) -> list[str]:
    return [parse(spec)[2]["label"] for spec in specs]


def test_checkpoints_stand_in_natural_order_and_are_called_as_their_files(folder: Path) -> None:
    specs, (series,) = expand(["zoo:a", f"series:{folder}?pattern=epoch*.safetensors", "zoo:b"])
    assert (specs[0], specs[-1]) == ("zoo:a", "zoo:b")
    assert specs[1:-1] == series.encoders
    assert labels(series.encoders) == ["epoch1", "epoch2", "epoch10"]
    assert [parse(spec)[:2] for spec in series.encoders] == [
        ("file", f"{folder}/{name}.safetensors") for name in ("epoch1", "epoch2", "epoch10")
    ]
    assert series.name == "moco"


def test_options_are_passed_on_and_names_survive(folder: Path) -> None:
    _, (series,) = expand([f"series:{folder}?mean=0.5,0.4,0.3&std=1&arch=a%26b&label=MoCo"])
    assert series.name == "MoCo"
    assert labels(series.encoders) == ["MoCo/best & last", "MoCo/epoch1", "MoCo/epoch2", "MoCo/epoch10"]
    for spec in series.encoders:
        _, _, options = parse(spec)
        assert {key: options[key] for key in ("mean", "std", "arch")} == {
            "mean": "0.5,0.4,0.3",
            "std": "1",
            "arch": "a&b",
        }


def test_checkpoints_may_lie_deeper_and_be_of_other_kinds(folder: Path) -> None:
    _, (series,) = expand([f"series:{folder}?pattern=**/epoch*[03]*"])
    assert labels(series.encoders) == ["epoch3", "epoch10", "late/epoch20"]
    assert [parse(spec)[0] for spec in series.encoders] == ["onnx", "file", "file"]


def test_plans_know_their_series(folder: Path, tmp_path: Path) -> None:
    spec = f"series:{folder}?pattern=e*.safetensors"
    plan = make_plan(AuditRequest([spec], "digits"))
    assert plan.encoders == plan.series[0].encoders
    (tmp_path / "plan.toml").write_text(f'encoders = ["{spec}"]\ndata = "digits"')
    assert read_plan(tmp_path / "plan.toml") == plan
    assert make_plan(AuditRequest(["zoo:digits-simclr"], "digits")).series == ()


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("series:no/such", Missing, "no/such"),
        ("series:{}?pattern=best*", NotEnough, "got 1"),
        ("series:{}?pattern=none*", NotEnough, "got 0"),
        (
            "series:{}?pattern=*.*",
            BadData,
            r"notes\.txt",
        ),
        ("series:{}?pattern=/x", BadValue, "pattern"),
        ("series:{}?pattern=", BadValue, "expected a value"),
    ],
)
def test_what_is_no_series_is_refused(folder: Path, text: str, kind: type[HoldfastError], said: str) -> None:
    with pytest.raises(kind, match=said):
        expand([text.format(folder)])


def test_series_are_of_encoders_of_the_plan() -> None:
    with pytest.raises(BadValue, match="zoo:x"):
        Series("a", ("zoo:x",))
    with pytest.raises(BadValue, match="'a'"):
        Series("a", ("zoo:x", "zoo:x"))
    with pytest.raises(UnknownName, match="zoo:y"):
        Plan(("zoo:x",), "digits", (CorruptionDrift(),), series=(Series("a", ("zoo:x", "zoo:y")),))


def test_only_measures_that_say_which_images_are_right_have_a_fluctuation() -> None:
    labels = torch.tensor([4, 4, 7])
    tables = [{"label": labels, "right": torch.tensor(right)} for right in ([1.0, 1, 0], [0.0, 1, 1])]
    found = {
        "accuracy": dict(zip("ab", tables, strict=True)),
        "uniformity": {name: {"label": labels, "own": torch.ones(3)} for name in "ab"},
    }
    (entry,) = series_entries([Series("s", ("x:a", "x:b"))], {"x:a": "a", "x:b": "b"}, found, found.__getitem__)
    assert (entry.name, entry.encoders) == ("s", ["a", "b"])
    assert list(entry.fluctuation) == ["accuracy"]
    assert entry.fluctuation["accuracy"].classes == {"class 4": 0.5, "class 7": 1.0}
    assert entry.fluctuation["accuracy"].mean is not None
    assert entry.fluctuation["accuracy"].mean.value == 0.75


def test_numbers_in_names_are_ordered_as_numbers() -> None:
    names = ["b1", "a10", "a9", "a09b", "a", "10", "a2-11", "a2-3"]
    assert sorted(names, key=natural) == ["10", "a", "a2-3", "a2-11", "a9", "a09b", "a10", "b1"]


@pytest.mark.parametrize(
    ("names", "at", "label", "shown"),
    [
        (["epoch1", "epoch2", "epoch10"], [1, 2, 10], "epoch", []),
        (["MoCo v2/step-100", "MoCo v2/step-200"], [100, 200], "step", []),
        (["0005", "0010"], [5, 10], "checkpoint", []),
        (["1-1", "2-3"], [1, 2], "checkpoint", ["1-1", "2-3"]),  # two numbers change
        (["1", "01"], [1, 2], "checkpoint", ["1", "01"]),
        (["first", "the_very_last"], [1, 2], "checkpoint", ["first", "…very_last"]),
    ],
)
def test_checkpoints_stand_at_their_number(names: list[str], at: list[int], label: str, shown: list[str]) -> None:
    found = places(names)
    assert (list(found.at), found.label, list(found.names)) == (at, label, shown)
