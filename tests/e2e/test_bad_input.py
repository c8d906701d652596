"""Bad input, everywhere: one line that says what is wrong, a status that says of which kind, and nothing written."""

import gzip
import io
import re
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import safetensors.torch
import torch
from test_command_line import status_of
from torch import nn

import holdfast
import typechecker
from bad_input import (
    START,
    Call,
    Command,
    count,
    limited,
    options,
    parts,
    settings,
    specs,
    spread,
    texts,
)
from holdfast import HoldfastError
from holdfast.auditing.plan import Plan
from holdfast.core import Encoder, Rng
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.exit_status import ExitStatus
from holdfast.sources.data import open_images


@pytest.fixture(autouse=True)
def as_users_meet_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without the tests' type checker, and with tracebacks of faults kept in the test's folder."""
    (tmp_path / "kept").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "kept"))
    with typechecker.off():
        yield


REFUSED = (ExitStatus.USAGE, ExitStatus.NOTHING)


# --- files ----------------------------------------------------------------------------------------


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def tar(**members: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name.replace("__", "."))
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def zipped(compression: int = zipfile.ZIP_STORED, **members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def header(shape: str, kind: str = "|u1") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def damaged(folder: Path) -> Path:
    """Make every kind of damaged file, by the names of `bad_input.DAMAGED`."""
    folder.mkdir()
    eight = np.random.default_rng(0).random((8, 8, 8), np.float32)
    whole = npz(images=eight)
    png = io.BytesIO()
    PIL.Image.fromarray(np.zeros((8, 8), np.uint8)).save(png, "png")
    crc = bytearray(whole)
    crc[300] ^= 1
    objects = np.array([{}], dtype=object)
    contents = {
        "text.npz": b"text", "empty.npz": b"", "half.npz": whole[: len(whole) // 2], "crc.npz": bytes(crc),
        "member.npz": zipped(images=b"no array"), "noarray.npz": zipped(images=b""),
        "header.npz": zipped(images=header("(99999999, 99999999, 99999)")), "pickle.npz": npz(images=objects),
        "bomb.npz": zipped(zipfile.ZIP_DEFLATED, images=header("(99999999999, 8, 8)") + bytes(2**20)),
        "classes.npz": npz(images=eight, labels=np.array(1), classes=np.array(1)),
        "surrogates.npz": npz(images=eight, ids=np.array([f"\udc80{i}" for i in range(8)])),
        "fewlabels.npz": npz(images=eight, labels=np.arange(3)),
        "floatlabels.npz": npz(images=eight, labels=np.linspace(0, 1, 8)),
        "ambiguous.npz": npz(a=eight, b=eight), "nan.npz": npz(images=eight * np.nan),
        "bytes.npz": npz(images=eight * 255),
        "one.npz": npz(images=eight[:1]), "flat.npz": npz(images=eight[0]), "complex.npz": npz(images=eight * 1j),
        "text.npy": b"text", "pickle.npy": npy(objects), "half.npy": npy(eight)[:200],
        "huge.npy": header("(99999999, 99999999, 99999)"), "zip.npy": whole, "text.tar": b"text" * 200,
        "half.tar": tar(a__png=png.getvalue())[:600], "gzip.tar": gzip.compress(tar(a__png=png.getvalue())),
        "noimages.tar": tar(a__txt=b"x"), "empty.tar": b"",
    }  # fmt: skip
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "fake").mkdir()
    for i in range(4):
        (folder / "fake" / f"{i}.png").write_text("no picture")
    (folder / "folder.npz").mkdir()
    return folder


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files and folders that bad input names: damaged ones, and a sound run, recipe and study."""
    home = tmp_path_factory.mktemp("bad")
    (home / "file").write_text("text")
    (home / "empty").mkdir()
    (home / "recipe.toml").write_text(f"{START}method = 'simclr'\n")
    (home / "study.toml").write_text(f"{START}test = 'digits'\n[[methods]]\ntitle = 'a'\nmethod = 'simclr'\n")
    (home / "x.tar").write_bytes(tar(a__txt=b"x"))
    integers = {key: value.long() for key, value in nn.Linear(4, 4).state_dict().items()}
    safetensors.torch.save_file(integers, home / "integers.safetensors")
    np.save(home / "vectors.npy", np.random.default_rng(0).normal(size=(40, 8)))
    named = {
        "vectors": "vectors.npy",
        "file": "file",
        "empty": "empty",
        "recipe": "recipe.toml",
        "study": "study.toml",
        "tar": "x.tar",
    }
    named |= {"integers": "integers.safetensors", "run": "run", "parts": "parts"}
    return {key: str(home / name) for key, name in named.items()} | {"damaged": str(damaged(home / "damaged"))}


@pytest.fixture(scope="module")
def run(places: dict[str, str]) -> dict[str, str]:
    """The same with a run of two encoders, and one that is only a part."""
    few = ("--data", "digits", "--images", "24", "--attacked", "8", "--set", "*.attack.steps=2")
    audit = ("audit", "zoo:digits-simclr", "--profile", "quick", *few, "--out")
    assert status_of(*audit[:2], "zoo:digits-simclr-adv", *audit[2:], places["run"]) == 0
    assert status_of(*audit, places["parts"], "--shard", "1/2") == 0
    return places


# --- what must hold -------------------------------------------------------------------------------


class Faults(list[str]):
    """What did not hold, case by case."""

    def refused(self, case: Command, places: dict[str, str], home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Run a command line that must be refused, in a folder in which it may leave nothing."""
        words = [_filled(word, places) for word in case.words]
        if "--out" not in words and not any(word.startswith("--out=") for word in words) and words[0] in WRITING:
            words += ["--out", str(home / "out")]
        capsys.readouterr()
        try:
            with limited():
                status = status_of(*words)
        except BaseException as error:
            self.append(f"{case}: {type(error).__name__}: {error}")
            return
        lines = capsys.readouterr().err.strip().splitlines()
        told = "\n".join(line for line in lines if not SIGN_OF_LIFE.match(line))
        error = next((line for line in told.splitlines() if line.startswith("error: ")), "")
        if status not in REFUSED:
            self.append(f"{case}: status {status}: {told[-300:]}")
        elif not error and status == ExitStatus.USAGE:
            self.append(f"{case}: no line that begins with error: {told[-300:]}")
        elif "Traceback" in told or len(told.splitlines()) > 1:
            self.append(f"{case}: more than a line: {told[-300:]}")
        if left := [path for path in home.iterdir() if _is_answer(path)]:
            self.append(f"{case}: left {[path.name for path in left]}")
        for path in home.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def raised(self, case: Call) -> None:
        """Make a call that must raise one line."""
        try:
            with limited():
                answer = case.do()
        except HoldfastError as error:
            if "\n" in str(error) or not str(error):
                self.append(f"{case}: not one line: {error}")
        except BaseException as error:
            self.append(f"{case}: {type(error).__name__}: {error}")
        else:
            self.append(f"{case}: accepted: {answer!r:.80}")


SIGN_OF_LIFE = re.compile(r"\d\d:\d\d:\d\d ")
"""How lines begin that say what is being done, where there is no terminal."""

WRITING = ("audit", "train", "study", "harden", "reproduce", "demo", "leaderboard")


def _filled(word: str, places: dict[str, str]) -> str:
    for name, path in places.items():
        word = word.replace(f"{{{name}}}", path)
    return word


def _is_answer(path: Path) -> bool:
    """Whether something is a run folder with a record, or a file that a command wrote."""
    return path.is_file() or (path / "record.json").exists() or (path / "report.html").exists()


def _home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder in which commands run."""
    home = folder / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    return home


def none(faults: Iterable[str]) -> None:
    short = [" ".join(fault.split())[:300] for fault in faults]
    if short:
        pytest.fail("\n".join([f"{len(short)} cases:", *short[:60]]), pytrace=False)


# --- calls from Python ----------------------------------------------------------------------------


class Tiny(nn.Module):
    """A network of 8x8 images."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.flatten(1))


def calls(file: str) -> list[Call]:
    """Return calls of the public functions with wrong arguments."""
    images, model = torch.rand(24, 1, 8, 8), Tiny()
    bare: dict[str, Any] = {"mean": 0, "std": 1, "profile": "quick", "quiet": True}

    def audit(**changed: Any) -> Callable[[], object]:
        given = {"model": model, "data": images, **bare} | changed
        return lambda: holdfast.audit(given.pop("model"), given.pop("data"), **given)  # pyright: ignore[reportCallIssue]

    wrong: dict[str, tuple[Any, ...]] = {
        "model": (None, 1, [], {}, [None], {"a": 1}, object(), Tiny, "nosuch", "zoo:nosuch", lambda x: x, b"x"),
        "data": (None, 1, 0.5, [], {}, object(), "nowhere", images[:1], images * 255, images[0, 0], images.long(),
                   images * float("nan"), np.zeros((4, 4)), {"image": images}, lambda: images),
        "mean": (None, "x", float("nan"), float("inf"), [0, 0, 0, 0], [], ["x"], True, {}, object()),
        "std": (None, "x", 0, -1, float("nan"), float("inf"), [0.0], [], True),
        "profile": (None, "", 1, "nosuch", ["quick"], b"quick"),
        "measures": (1, "nosuch", ["nosuch"], [1], BreakawayRisk, [BreakawayRisk], {}, {"name": 1}, {"name": "nosuch"},
                     {"name": "breakaway_risk", "nosuch": 1}, Linf(0.1), [Linf(0.1)], object(), {"kind": "checks"},
                     {"name": "masking", "kind": "checks"}, [{"name": "breakaway_risk", "attack": 1}], ""),
        "eps": ("x", True, float("nan"), float("inf"), -1, 0, 8, [], np.float64("nan"), torch.tensor(float("inf"))),
        "norm": (1, "", "l3", "gaussian", True),
        "settings": (1, "x", ["x"], [1], {"x": 1}, {1: 1}, {"breakaway_risk.ball.radius": float("nan")},
                     {"breakaway_risk.attack.steps": object()}, {"breakaway_risk.attack.steps": 1.5}),
        "labels": (1, "x", [1], torch.zeros(3), torch.zeros(24), np.array(["a"] * 24), object()),
        "images": ("x", True, 1, 0, -1, 1.5, float("nan"), 2**70, [24], np.float64(24.0)),
        "attacked": ("x", True, 1, 0, -2, 9, 1.5, 2**70, np.float64(8.0)),
        "out": (1, "", True, ["x"], file, f"{file}/inside", "zip://x"),
        "overwrite": ("yes", 1, None, 0),
        "device": (1, "", "nosuch", "cuda:99", True),
        "workers": ("x", True, 0, -1, 1.5, float("nan"), 2**70),
        "seed": ("x", True, 1.5, None, float("nan"), -1, 2**70),
        "quiet": ("yes", None, 1),
        "train": (1, "nowhere", object(), images[:1]),
        "batch_size": ("x", True, 0, -1, 1.5),
        "precision": (None, 1, "", "fp8"),
        "compiled": ("yes", 1, None),
        "skip_corrupt": ("yes", 1, None), "skip_duplicates": ("yes", 1, None),
        "train_images": ("x", True, 1, 5),
        "checks": ((), None), "spare": (True,), "nosuch": (1,), "encoders": (["x"],), "series": ((),),
        "examined": ("x", True, -1), "queries": ("x", 1.5, -1), "shared_searches": ("yes", 1),
        "allow": (1, "nosuch", ["nosuch"]), "budget": ("x", 0, -1, True, "2 m"), "until": (1, "x", "0 images"),
    }  # fmt: skip
    made = [Call(f"audit({key}={value!r:.50})", audit(**{key: value})) for key in wrong for value in wrong[key]]
    plan: dict[str, Any] = {"encoders": ("zoo:digits-simclr",), "data": "digits", "measures": (BreakawayRisk(),)}
    for key, values in {
        "encoders": (None, "x", 1, [1], [None]), "data": (None, 1, b"x", []),
        "measures": (None, (), BreakawayRisk, [BreakawayRisk], BreakawayRisk(), ["breakaway_risk"], [Linf(0.1)]),
        "checks": (None, 1, "x", ["masking"], [BreakawayRisk()]), "images": (1, 0, -1, "x", 1.5, True, float("nan")),
        "attacked": (1, 9, -2, "x", 2.0, True), "seed": ("x", True, None, 1.5), "batch_size": (0, -1, "x", True),
        "device": (None, 1), "skip_corrupt": ("no", None, 1), "skip_duplicates": ("no", None, 1),
        "profile": (None, 1), "train": (1, b"x"),
        "train_images": (1, "x", 5), "spare": ("x", None), "series": (None, "x", [1]), "precision": (None, "fp8", 1),
        "compiled": ("x", 1), "nosuch": (1,),
    }.items():  # fmt: skip
        made += [
            Call(f"Plan({key}={value!r:.50})", lambda key=key, value=value: Plan(**{**plan, key: value}))
            for value in values
        ]
    made += [
        Call(f"Plan(without {key})", lambda key=key: Plan(**{k: v for k, v in plan.items() if k != key}))
        for key in plan
    ]
    for function in (holdfast.compare, holdfast.open):
        for value in (None, 1, "", "nowhere", [], {}, {"a": 1}, object(), b"x"):
            made.append(Call(f"{function.__name__}({value!r:.50})", lambda f=function, value=value: f(value)))
    made += [
        Call("compare()", holdfast.compare),
        Call("compare(nosuch=1)", lambda: holdfast.compare(nosuch=1)),
        Call("open()", lambda: holdfast.open()),  # pyright: ignore[reportCallIssue]
        Call("audit()", lambda: holdfast.audit()),  # pyright: ignore[reportCallIssue]
        Call("compare(measures='x')", lambda: holdfast.compare("a", "b", measures="x")),
        Call("compare(correction=1)", lambda: holdfast.compare("a", "b", correction=1)),  # pyright: ignore
    ]
    encoder = Encoder(model, mean=0, std=1, name="tiny")
    for title, x in {"bytes": images * 255, "negative": images - 1, "nan": images * float("nan")}.items():
        goal = Untargeted().pursue(encoder, encoder(images))
        rng = Rng(0).at([str(i) for i in range(len(x))])
        made.append(Call(f"Pgd of {title}", lambda x=x, goal=goal, rng=rng: Pgd(1)(goal, x, Linf(0.1), rng)))
    for value in (None, 1, object(), "nowhere", np.zeros(3), images[:1]):
        made.append(Call(f"open_images({value!r:.50})", lambda value=value: open_images(value)))  # pyright: ignore
    for key, values in {
        "model": (None, 1, "nosuch", Tiny, []), "data": (None, 1, "nowhere", images * 255), "mean": (None, "x"),
        "steps": (0, -1, "x", 1.5, True), "budget": ("x", "", 0, -1, float("nan"), None, True), "rate": (float("nan"),
        float("inf"), 0, -1, "x", True), "eps": (float("nan"), -1, 0, 8, "x"), "norm": ("l3", 1), "views": ("x", 1),
        "attack": ("x", 1), "objective": ("x", 1), "batch_size": (0, "x", 1.5), "profile": ("", "nosuch", None),
        "seed": ("x", True, 1.5), "device": ("nosuch", 1), "nosuch": (1,), "test": (1, "nowhere"), "out": (1, "", file),
    }.items():  # fmt: skip
        made += [Call(f"harden({key}={value!r:.50})", _harden(model, images, key, value)) for value in values]
    return made


def _harden(model: nn.Module, images: torch.Tensor, key: str, value: Any) -> Callable[[], object]:
    given = {"model": model, "data": images, "mean": 0, "std": 1, "steps": 1, "batch_size": 8} | {key: value}
    if key == "budget":
        given.pop("steps")
    return lambda: holdfast.harden(given.pop("model"), given.pop("data"), **given)


# --- the suite ------------------------------------------------------------------------------------


def test_a_sample(places: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """Some of each, so that a broken place shows at once."""
    home = _home(tmp_path, monkeypatch)
    faults = Faults()
    light = [case for case in options() if not {"{run}", "{parts}"} & {*case.words}]
    for case in [*spread(iter(light), 9), *spread(specs(), 3)]:
        faults.refused(case, places, home, capsys)
    for case in spread(parts(("threats", "attacks")), 28):
        faults.raised(case)
    none(faults)


@pytest.mark.slow
def test_parts(tmp_path: Path) -> None:
    faults = Faults()
    for case in parts():
        faults.raised(case)
    none(faults)


@pytest.mark.slow
def test_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: dict[str, str]) -> None:
    _home(tmp_path, monkeypatch)
    faults = Faults()
    for case in calls(places["file"]):
        faults.raised(case)
    none(faults)


@pytest.mark.slow
@pytest.mark.parametrize("cases", [options, specs, settings], ids=lambda cases: cases.__name__)
def test_command_lines(
    cases: Callable[[], Iterable[Command]], run: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    home = _home(tmp_path, monkeypatch)
    faults = Faults()
    for case in cases():
        faults.refused(case, run, home, capsys)
    none(faults)


@pytest.mark.slow
def test_toml(places: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    home = _home(tmp_path, monkeypatch)
    faults = Faults()
    for before, body in texts():
        (tmp_path / "bad.toml").write_text(body)
        if before == ("audit",) and body == "":
            continue  # the same as a plan without encoders
        case = Command((*before, str(tmp_path / "bad.toml")), body)
        faults.refused(case, places, home, capsys)
        if len(faults) and faults[-1].startswith(str(case)):
            faults[-1] += f"  <- {body[:200]!r}"
    none(faults)


@pytest.mark.slow
def test_how_many(places: dict[str, str]) -> None:
    """At least 600 beside those of parts, over all commands, files, encoders and functions."""
    lines = {cases.__name__: count(cases()) for cases in (options, specs, settings)}
    others = sum(lines.values()) + count(texts()) + len(calls(places["file"]))
    assert others >= 600, (lines, others)
    assert count(parts()) >= 1000
