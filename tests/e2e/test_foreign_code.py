"""Code of users that ends the process, prints, changes its input or itself: its own failure, and no other's."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import holdfast
from holdfast.core import InWords, Score, Table, registry
from holdfast.parts.attacks.fgsm import Fgsm
from holdfast.parts.measures.drift.cosine_to_self import CosineToSelf
from holdfast.runtime.errors import Failed, NothingAudited
from holdfast.runtime.foreign import Ended, forbid_mutation, foreign
from holdfast.sources.encoders import open_encoder

MODULE = """
import os, sys
import torch
from torch import nn

print("importing")
os.write(1, b"below Python\\n")

class Net(nn.Module):
    def __init__(self, act=lambda net, x: None):
        super().__init__()
        self.act = act
        self.linear = nn.Linear(64, 8)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.act(self, x)
        return self.linear(x.flatten(1))

def talks(): return Net(lambda net, x: print("running"))
def leaves(): return Net(lambda net, x: sys.exit(0))
def leaves_at_once(): sys.exit(0)
class Stop(BaseException): pass
def stop(net, x): raise Stop("no")
def stops(): return Net(stop)
def counts(): return Net(lambda net, x: net.count.add_(1))
def drifts(): return Net(lambda net, x: net.linear.weight.data.mul_(1.01))
def grabs(): return Net(lambda net, x: x.mul_(0.5))
def still(): return Net(lambda net, x: None)
def halves():
    net = Net()
    net.linear.weight.data.mul_(0.5)
    return net
"""

SMALL = ["--data", "digits", "--profile", "quick", "--images", "16", "--attacked", "4", "--set", "*.attack.steps=2"]


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own.py").write_text(MODULE)
    (tmp_path / "script.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("own", "script"):
        sys.modules.pop(name, None)
    return tmp_path


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("factory", "says"),
    [
        ("own:leaves_at_once", "'leaves_at_once' called sys.exit(0) while it was called"),
        ("own:leaves", "called sys.exit(0) while it was run"),
        pytest.param("own:stops", "raised Stop while it was run", marks=pytest.mark.slow),
        ("own:counts", "changes its own weights or buffers when it is run (count)"),
        pytest.param(
            "own:drifts", "changes its own weights or buffers when it is run (linear.weight)", marks=pytest.mark.slow
        ),
    ],
)
def test_an_encoder_that_misbehaves_is_its_own_failure(folder: Path, factory: str, says: str) -> None:
    """The other encoder of the same audit has its numbers."""
    plan = {"profile": "quick", "images": 16, "attacked": 4, "measures": "cosine_to_self"}
    record = holdfast.audit([f"py:{factory}?mean=0&std=1", "zoo:digits-simclr"], "digits", **plan)
    assert [says in failure for failure in record.failures] == [True], record.failures
    bad, good = record.data["encoders"]
    assert says in bad["error"]
    assert not bad["measures"]
    assert good["measures"]["cosine_to_self"]["scores"]


def test_a_module_that_cannot_be_imported_is_said_before_any_pass(folder: Path) -> None:
    says = r"called sys.exit\(0\) while it was imported; move its script part under .* to audit the other 1"
    with pytest.raises(NothingAudited, match=says):
        holdfast.audit(["py:script:build?mean=0&std=1", "zoo:digits-simclr"], "digits", profile="quick", images=16)


def test_input_changed_in_place_changes_nothing(folder: Path) -> None:
    """A module may scale its input in place; the images stay, and the representation is that of half the image."""
    torch.manual_seed(0)
    x = torch.rand(3, 1, 8, 8)
    before, grabs = x.clone(), open_encoder("py:own:grabs?mean=0&std=1")
    reps = grabs(x)
    assert torch.equal(x, before)
    assert torch.equal(grabs(x), reps)
    wanting = x.clone().requires_grad_()
    grabs(wanting).sum().backward()
    assert torch.equal(wanting.detach(), before)


@pytest.mark.slow
def test_stdout_is_the_answer_alone_and_a_silent_exit_is_none(folder: Path) -> None:
    """Prints in Python and below it go to stderr; an encoder that calls sys.exit(0) does not end with status 0."""
    done = command(folder, "audit", "py:own:talks?mean=0&std=1", *SMALL, "--out", "a", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["encoders"][0]["error"] is None
    assert {"importing", "below Python", "running"} <= set(done.stderr.splitlines())
    done = command(folder, "audit", "py:script:build?mean=0&std=1", *SMALL, "--out", "b")
    assert done.returncode == 3  # nothing could be audited
    assert "move its script part under `if __name__ == '__main__'`" in done.stderr
    assert done.stdout == ""


@dataclass(frozen=True)
class Greedy(CosineToSelf):
    """A measure that changes what it reads."""

    def observe(self, subject):
        for observation in self.observations():
            for values in subject.read(observation).values():
                values.numpy()[...] = 0
        return super().observe(subject)


@dataclass(frozen=True)
class Quitter(CosineToSelf):
    """A measure that ends the process."""

    def score(self, table: dict[str, torch.Tensor]) -> dict[str, Score]:
        sys.exit(0)


@dataclass(frozen=True)
class Smearing(Fgsm):
    """An attack that changes the clean images."""

    def __call__(self, goal, x, ball, rng, readouts=()):
        x.numpy()[...] = 0.5
        return super().__call__(goal, x, ball, rng, readouts)


def test_a_write_into_what_is_large_is_noticed_wherever_it_is() -> None:
    large = torch.zeros(100, 2)
    with forbid_mutation("it", large[:3], large=large):
        assert float((large + 1).sum()) == 200
    for place in (1, 70):
        with (
            pytest.raises(Failed, match="clone"),
            forbid_mutation("it", large[:3], large=large),
        ):
            large[place].add_(1)


def test_measures_and_attacks_of_ones_own_harm_nobody_else() -> None:
    for cls, kind in ((Greedy, "measures"), (Quitter, "measures"), (Smearing, "attacks")):
        registry.register(kind)(cls)
    try:
        plan = {"profile": "quick", "images": 16, "attacked": 4}
        alone = holdfast.audit("zoo:digits-simclr", "digits", measures=["cosine_to_self"], **plan)
        smeared = {"name": "cosine_to_self", "attack": {"kind": "attacks", "name": "smearing"}}
        asked = ["greedy", "quitter", "cosine_to_self", smeared]
        record = holdfast.audit("zoo:digits-simclr", "digits", measures=asked, **plan)
    finally:
        for kind, name in (("measures", "greedy"), ("measures", "quitter"), ("attacks", "smearing")):
            registry._here[kind].pop(name)
        registry.forget()
    measures = record.data["encoders"][0]["measures"]
    plain = next(name for name in measures if name.startswith("cosine_to_self") and measures[name]["scores"])
    same = alone.data["encoders"][0]["measures"]["cosine_to_self"]["scores"]
    assert {key: s["value"] for key, s in measures[plain]["scores"].items()} == {k: s["value"] for k, s in same.items()}
    errors = " | ".join(record.failures)
    assert "measure quitter called sys.exit(0) while it was run" in errors
    assert "changes its input in place" in errors


@dataclass(frozen=True)
class Incomparable(CosineToSelf):
    """A measure whose scores cannot be compared."""

    def influence(self, table: dict[str, torch.Tensor]) -> torch.Tensor:
        raise ZeroDivisionError("no influence")


@dataclass(frozen=True, kw_only=True)
class Unsaid(CosineToSelf):
    """Says of itself, or of its numbers, what no record can hold."""

    says: str

    def in_words(self, table: Table, scores: Mapping[str, Score]) -> InWords | None:
        """Return a path in the place of words."""
        return InWords(Path("x")) if self.says == "words" else None  # type: ignore

    @property
    def unit(self) -> str:
        """A number in the place of a word."""
        return 5 if self.says == "unit" else "similarity"  # type: ignore

    @property
    def better(self) -> str:
        """No direction that there is."""
        return "sideways" if self.says == "better" else "higher"


@pytest.mark.sweep(3)
@pytest.mark.parametrize(("says", "error"), [("words", "says"), ("unit", "unit"), ("better", "sideways")])
def test_what_no_record_can_hold_costs_its_measure_alone(own_parts_forgotten, says: str, error: str) -> None:
    registry.register("measures")(Unsaid)
    measures = [{"name": "unsaid", "says": says}, "cosine_to_self"]
    options = {"profile": "quick", "images": 16, "attacked": 4, "quiet": True}
    record = holdfast.audit("zoo:digits-simclr", "digits", measures=measures, **options)
    (failure,) = record.failures
    assert "unsaid" in failure
    assert error in failure
    assert record["cosine_to_self"].value is not None


def test_a_comparison_that_fails_costs_no_score(own_parts_forgotten) -> None:
    registry.register("measures")(Incomparable)
    encoders = ["zoo:digits-simclr", "zoo:digits-simclr-adv"]
    measures = ["incomparable", "cosine_to_self"]
    record = holdfast.audit(encoders, "digits", measures=measures, profile="quick", images=16, attacked=4)
    assert record.failures == ("comparison of incomparable: no influence",)
    assert record.data["comparison"]["incomparable"] == {"best": None, "pairs": [], "charts": []}
    assert len(record.data["comparison"]["cosine_to_self"]["pairs"]) == 1
    assert record[encoders[0], "incomparable"].value is not None


def test_a_data_set_that_ends_the_process(tmp_path: Path) -> None:
    class Items:
        def __len__(self) -> int:
            return 20

        def __getitem__(self, index: int) -> np.ndarray:
            if index == 13:
                sys.exit(0)
            return np.full((8, 8), index, np.uint8)

    with pytest.raises(Failed, match="item 13"):
        holdfast.audit("zoo:digits-simclr", Items(), profile="quick")


def test_what_foreign_code_raises() -> None:
    """Ctrl-C and the end that a signal asks for go through; the rest is one line."""
    for passing in (KeyboardInterrupt, Ended, ValueError):
        with pytest.raises(passing), foreign("x", "run"):
            raise passing
    for turned in (SystemExit, type("Stop", (BaseException,), {})):
        with pytest.raises(Failed), foreign("x", "run"):
            raise turned
    with pytest.raises(Failed, match="KeyError: 'y'"), foreign("x", "run", wrap=True):
        raise KeyError("y")
    tensor = torch.zeros(3)
    with pytest.raises(Failed, match="clone"), forbid_mutation("x", tensor):
        tensor.numpy()[1] = 1


@pytest.mark.parametrize("shape", [(1, 1, 2, 2), (3, 7), (5, 1021), (2, 3, 32, 32)])
@pytest.mark.parametrize("change", [lambda x: x.flip(-1), lambda x: x.flip(0, 1), lambda x: x.flatten().roll(1021)])
def test_values_that_change_places_are_a_change(shape: tuple[int, ...], change: Callable) -> None:
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    if torch.equal(change(x).view(shape), x):
        pytest.skip("nothing changes places")
    with pytest.raises(Failed), forbid_mutation("x", x):
        x.copy_(change(x).view(shape).clone())


@pytest.mark.slow
def test_workers_meet_the_same_code(folder: Path) -> None:
    done = command(
        folder, "audit", *(f"py:own:{name}?mean=0&std=1" for name in ("leaves", "counts", "talks")), *SMALL,
        "--workers", "2", "--out", "w", "--json",
    )  # fmt: skip
    assert done.returncode != 0
    record = json.loads(done.stdout)
    left, counted, talked = record["encoders"]
    assert "sys.exit(0)" in left["error"]
    assert "changes its own weights" in counted["error"]
    assert talked["error"] is None
    assert record["run"]["workers_lost"] == 0
    assert os.path.exists(folder / "w" / "report.html")
