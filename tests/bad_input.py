"""Wrong input for everything that takes input, generated from what commands, parts and functions say of themselves."""

import dataclasses
import itertools
import math
import signal
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import torch
import typer

from holdfast.cli import app
from holdfast.core import registry

LIMIT = 60
"""Seconds after which a case counts as hanging."""


@dataclass(frozen=True)
class Command:
    """Arguments of a command line that must be refused.

    Attributes:
        words: what stands behind `holdfast`; "{name}" is a file or folder of the fixture.
        why: what is wrong with it.
    """

    words: tuple[str, ...]
    why: str = ""

    def __str__(self) -> str:
        return " ".join(word if len(word) < 80 else f"{word[:40]}…" for word in self.words)


@dataclass(frozen=True)
class Call:
    """A call from Python that must be refused.

    Attributes:
        title: what is called, with what.
        do: calls it.
    """

    title: str
    do: Callable[[], object]

    def __str__(self) -> str:
        return self.title


@contextmanager
def limited(seconds: int = LIMIT) -> Iterator[None]:
    """Raise TimeoutError in what takes too long."""

    def over(*_: object) -> None:
        raise TimeoutError(f"hangs: not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# --- options of commands --------------------------------------------------------------------------

SMALL = ("--data", "digits", "--profile", "quick", "--images", "24", "--attacked", "8")
BASES: dict[str, tuple[str, ...]] = {
    "audit": ("audit", "zoo:digits-simclr", *SMALL),
    "merge": ("merge", "{parts}"),
    "check": ("check", "{run}", "--require", "breakaway_risk >= 0"),
    "compare": ("compare", "{run}"),
    "compare-index": (
        "compare-index",
        "zoo:digits-simclr",
        "zoo:digits-simclr-adv",
        "--data",
        "digits",
        "--images",
        "24",
    ),
    "parity": ("parity", "zoo:digits-simclr", "zoo:digits-simclr-adv", "--data", "digits", "--images", "24"),
    "audit-index": ("audit-index", "vectors:{vectors}"),
    "leaderboard": ("leaderboard", "{run}"),
    "figures": ("figures", "{run}", "--only", "images"),
    "view": ("view", "{run}", "--no-open"),
    "report": ("report", "{run}"),
    "train": ("train", "{recipe}"),
    "study": ("study", "{study}"),
    "harden": ("harden", "zoo:digits-simclr", "--data", "digits", "--steps", "1"),
    "certify": ("certify", "zoo:digits-simclr", "--data", "digits", "--image", "0", "--against", "1", "--draws", "0"),
    "export-vnnlib": ("export-vnnlib", "zoo:digits-simclr", "--data", "digits", "--eps", "0.01"),
    "verify": ("verify", "{file}", "{file}"),
    "embed-names": ("embed-names", "zoo:digits-simclr", "--names", "{file}"),
    "reproduce": ("reproduce", "rvcl-table3", "--profile", "small"),
    "show": ("show", "pgd"),
    "list": ("list",),
    "doctor": ("doctor",),
    "demo": ("demo",),
}
"""A command line for every command that would do its work, were it not for what is added."""

NUMBERS = ("x", "nan", "inf", "1e400", "1e999999999", "4/0", "", " ", "٣²", "0x10", "9" * 5000)
"""What is no number, or none that can be used; a count is no fraction either."""

COUNTS = (*NUMBERS, "1.5", "1e3", "-1", "9" * 30)

FREE = {
    "--out", "--csv", "--parquet", "--markdown", "--latex", "--html", "--junit", "--summary", "--eval-results",
    "--benchmark", "--source-url", "--address", "--label", "--mteb", "--cite",
}  # fmt: skip
"""Options that take any text, or make the file that they name: only an empty one is wrong."""

PLACES = ("zip://x", "nosuchscheme://x", "{file}/inside", "")
"""Where no run folder can be."""

WIDER = {
    ("audit", "--workers"): ("9" * 30,),  # may be any number; refused by what there is
}


def options() -> Iterator[Command]:
    """Yield every option of every command with wrong values of its kind."""
    for info in app.registered_commands:
        assert info.callback is not None
        name = info.name or info.callback.__name__.replace("_", "-")
        base = BASES[name]
        for field, hint in get_type_hints(info.callback, include_extras=True).items():
            if field == "return":
                continue
            kind, option = _option(field, hint)
            if option is None:
                yield from (Command((name, "no/such\x00thing"), "argument") for _ in range(1) if name != "doctor")
                continue
            if kind is bool:
                yield Command((*base, f"{option}=perhaps"), "a flag takes no value")
                continue
            for value in _wrong(kind, option, name):
                yield Command((*_without(base, option), option, value), f"{option} of {name}")
                if value == "":
                    yield Command((*_without(base, option), f"{option}="), f"{option} of {name}")
        yield Command((*base, "--no-such-option"), "an unknown option")
        yield Command((*base, ""), "an empty argument")


def _option(field: str, hint: Any) -> tuple[Any, str | None]:
    """Return the kind of an option and how it is written; None for an argument."""
    kind, *facts = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    kinds = [one for one in get_args(kind) if one is not type(None)] if isinstance(kind, types.UnionType) else [kind]
    inner = get_args(kinds[0])[0] if get_origin(kinds[0]) is list else kinds[0]
    for fact in facts:
        if isinstance(fact, typer.models.OptionInfo):
            said = (fact.default, *(fact.param_decls or ()))  # in annotations typer takes the first name for a default
            written = [word for word in said if isinstance(word, str) and word.startswith("--")]
            return inner, written[0] if written else f"--{field.replace('_', '-')}"
        if isinstance(fact, typer.models.ArgumentInfo):
            return inner, None
    return inner, f"--{field.replace('_', '-')}"


def _wrong(kind: Any, option: str, command: str) -> tuple[str, ...]:
    if kind is int:
        return COUNTS
    if kind is float:
        return (*NUMBERS, "-1")
    if option == "--out" and command not in ("leaderboard", "reproduce"):
        return PLACES
    return ("",) if option in FREE else ("", " ", "no-such-thing-anywhere")


def _without(base: tuple[str, ...], option: str) -> tuple[str, ...]:
    """Return a command line without an option that is given again."""
    if option not in base:
        return base
    at = base.index(option)
    return base[:at] + base[at + 2 :]


# --- parts ----------------------------------------------------------------------------------------

FLOATS = (math.nan, -math.inf, "x", True, [], {}, 10**400, -1, 1j, b"1", torch.nan * torch.ones(()), np.float64("nan"))
WHOLE = (1.5, math.nan, "x", False, [], 2**70, -1, np.float32(2.5), torch.tensor(1.5), np.zeros(2))
TEXTS = (1, 1.5, True, [], b"x", "\udcff", ["x"])
OTHERS = ("x", 1, True, [object()], {"x": 1}, object)


def parts(kinds: tuple[str, ...] = registry.KINDS) -> Iterator[Call]:
    """Yield every parameter of every part with wrong values of its kind, and unknown ones."""
    for kind in kinds:
        for name in registry.names(kind):
            cls = registry.find(kind, name)
            hints = get_type_hints(cls, include_extras=True)
            for field in dataclasses.fields(cls):
                for value in _misfits(hints[field.name]):
                    title = f"{kind}.{name}({field.name}={value!r:.60})"
                    yield Call(title, lambda cls=cls, key=field.name, value=value: cls(**{key: value}))
            yield Call(f"{kind}.{name}(unknown)", lambda cls=cls: cls(no_such_parameter=1))
            spec = {"kind": kind, "name": name, "no_such_parameter": 1}
            yield Call(f"build {kind}.{name}", lambda spec=spec: registry.build(spec))


def _misfits(hint: Any) -> tuple[Any, ...]:
    """Return values that an annotation does not allow."""
    if get_origin(hint) is Annotated:
        positive = (0,) if "above 0" in hint.__metadata__ else ()
        signed = (-1,) if "signed" in hint.__metadata__ else ()
        return tuple(value for value in _misfits(get_args(hint)[0]) if value not in signed) + positive
    if isinstance(hint, types.UnionType) or (get_origin(hint) is not None and type(None) in get_args(hint)):
        rest = [one for one in get_args(hint) if one is not type(None)]
        wrong = (value for value in _misfits(rest[0]) if len(rest) == 1 or not isinstance(value, (int, float)))
        return tuple(value for value in wrong if value is not None or type(None) not in get_args(hint))
    if hint in (int, float):
        return (WHOLE if hint is int else FLOATS) + (None,)
    if hint is bool:
        return ("no", 0, 1, None, [])
    if hint is str:
        return (*TEXTS, None)
    if get_origin(hint) is Literal:
        return ("no such word", 1, None)
    if get_origin(hint) is tuple:
        inner = tuple([value] for value in _misfits(get_args(hint)[0]) if not isinstance(value, list))
        return (1, "x", None, *inner)
    return OTHERS


# --- specs of data and encoders -------------------------------------------------------------------

SPECS = (
    "nosuch", "nosuch:x", "digits?", "digits?part", "digits?part=", "digits?part=x", "digits?part=all&part=all",
    "digits?size=0", "digits?size=-1", "digits?size=x", "digits?size=99999x99999", "digits?size=1x2x3", "digits?size=²",
    "digits?channels=2", "digits?channels=x", "digits?skip_corrupt=maybe", "digits?skip_duplicates=maybe",
    "digits?balance=x", "digits?nosuch=1",
    "digits?balance=long_tail&ratio=nan", "digits?balance=long_tail&ratio=inf", "digits?balance=long_tail&ratio=0",
    "digits?balance=long_tail&balance_seed=x", "digits:x", "gaussian:x", "gaussian?shape=0", "gaussian?shape=x",
    "gaussian?shape=3x3", "gaussian?shape=99999x99999x99999", "gaussian?shape=1x²x3", "gaussian?shape=-3x4x4",
    "gaussian?s=nan", "gaussian?s=0", "gaussian?s=inf", "gaussian?share=0", "gaussian?share=2", "gaussian?share=nan",
    "gaussian?scale=nan", "gaussian?scale=-1", "gaussian?count=0", "gaussian?count=x", "gaussian?count=1",
    "gaussian?draw=x", "gaussian?count=99999999999999999999", "arrays:nowhere.npz", "nowhere.npy", "nowhere.tar",
    "folder:nowhere", "folder:{file}", "webdataset:nowhere.tar", "webdataset:x{000..999999999}.tar",
    "retrieval:", "retrieval:nowhere", "retrieval:{file}", "retrieval:.?text=x", "webdataset:{tar}?column=nosuch",
    "torchvision:NoSuch", "torchvision:CIFAR10?root=nowhere", "hf:", "{file}",
    "{empty}", "a" * 5000, "\x00", "?", ":", "digits?=x", "digits?a=%ff%fe",
)  # fmt: skip
"""Data specs of which none is one."""

DAMAGED = (
    "text.npz", "empty.npz", "half.npz", "crc.npz", "member.npz", "noarray.npz", "header.npz", "pickle.npz",
    "bomb.npz", "classes.npz", "surrogates.npz", "fewlabels.npz", "floatlabels.npz", "ambiguous.npz", "nan.npz",
    "bytes.npz", "one.npz", "flat.npz", "complex.npz", "text.npy", "pickle.npy", "half.npy", "huge.npy", "zip.npy",
    "text.tar", "half.tar", "gzip.tar", "noimages.tar", "fake", "folder.npz", "empty.tar",
)  # fmt: skip
"""Files and folders that `damaged` makes."""

ENCODERS = (
    "", "nosuch", "zoo:", "zoo:nosuch", "zoo:digits-simclr?", "zoo:digits-simclr?label=", "zoo:digits-simclr?label=%0a",
    "zoo:digits-simclr?nosuch=1", "zoo:digits-simclr?mean=0", "zoo:digits-simclr?mean=nan&std=1",
    "zoo:digits-simclr?mean=0&std=0", "zoo:digits-simclr?mean=0&std=-1", "zoo:digits-simclr?mean=0&std=inf",
    "zoo:digits-simclr?mean=x&std=1", "zoo:digits-simclr?mean=0,0&std=1,1", "zoo:digits-simclr?mean=&std=1",
    "zoo:digits-simclr?layer=nosuch", "zoo:digits-simclr?layer=0..1", "zoo:digits-simclr?pool=nosuch",
    "zoo:digits-simclr?size=0", "zoo:digits-simclr?size=x", "zoo:digits-simclr?size=99999x99999",
    "zoo:digits-simclr?size=1x1", "zoo:digits-simclr?seed=x", "zoo:cnn_a_mnist?seed=1.5", "zoo:cnn_a_mnist?seed=²",
    "zoo:digits-simclr?weights=nowhere.safetensors", "zoo:digits-simclr?weights={file}",
    "zoo:digits-simclr?weights={integers}", "zoo:digits-simclr?label=a&label=b", "py:", "py:nosuch", "py:nosuch:x",
    "py:holdfast:nosuch", "py:math:pi", "file:nowhere.safetensors", "file:{file}", "file:{empty}",
    "file:{integers}?mean=0&std=1&arch=nosuch", "onnx:nowhere.onnx?mean=0&std=1", "onnx:{file}?mean=0&std=1",
    "timm:", "timm:nosuch", "torchvision:nosuch", "hf:{empty}", "series:nowhere", "series:{empty}",
    "series:{empty}?pattern=", "series:{file}", "x" * 5000, "zoo:digits-simclr?label=" + "x" * 200,
)  # fmt: skip
"""Encoder specs of which none is one."""


def specs() -> Iterator[Command]:
    """Yield data specs, damaged files and encoder specs, in the commands that take them."""
    rest = ("--profile", "quick", "--images", "24", "--attacked", "8")
    for spec in (*SPECS, *(f"{{damaged}}/{name}" for name in DAMAGED)):
        yield Command(("audit", "zoo:digits-simclr", "--data", spec, *rest), "no images")
    for spec in (*SPECS[:40:4], *(f"{{damaged}}/{name}" for name in DAMAGED[::3])):
        yield Command(("audit", "zoo:digits-simclr", "--data", "digits", "--train", spec, *rest), "no training images")
        yield Command(("harden", "zoo:digits-simclr", "--data", spec, "--steps", "1"), "nothing to learn from")
        yield Command(("audit", "zoo:digits-simclr", "--data", spec, "--dry-run", "--calibrate", "1"), "no images")
    for spec in ENCODERS:
        yield Command(("audit", spec, *SMALL), "no encoder")
    for spec in ENCODERS[::3]:
        yield Command(("harden", spec, "--data", "digits", "--steps", "1"), "no encoder")
        yield Command(("audit", spec, *SMALL, "--dry-run", "--calibrate", "1"), "no encoder")


# --- settings and TOML ----------------------------------------------------------------------------

DEEP = "[" * 3000 + "]" * 3000
SETTINGS = (
    "", "x", "=", "a=1", ".=1", "breakaway_risk=1", "breakaway_risk.=1", "nosuch.ball.radius=1", "*.nosuch=1",
    "breakaway_risk.ball.radius=nan", "breakaway_risk.ball.radius=NaN", "breakaway_risk.ball.radius=inf",
    "breakaway_risk.ball.radius=1e400", "breakaway_risk.ball.radius=-1", "breakaway_risk.ball.radius=x",
    "breakaway_risk.ball.radius=true", "breakaway_risk.ball.radius=[1]", "breakaway_risk.ball.radius=",
    "breakaway_risk.attack.steps=0", "breakaway_risk.attack.steps=1.5", "breakaway_risk.attack.steps=1e3",
    "breakaway_risk.attack.steps=-1", "breakaway_risk.attack.steps=99999999999999999999999",
    "breakaway_risk.attack=nosuch", "breakaway_risk.attack=linf",
    'breakaway_risk.attack={"name": 1}', 'breakaway_risk.attack={"kind": "threats", "name": "linf"}',
    "breakaway_risk.divergence=nosuch", "breakaway_risk.divergence=1", "breakaway_risk.name=x", "breakaway_risk.kind=x",
    f"breakaway_risk.attack={DEEP}", "breakaway_risk.readouts=" + '{"a":' * 2000 + "1" + "}" * 2000,
    "breakaway_risk.readouts=[[1]]", "breakaway_risk.readouts=[0.5]",
)  # fmt: skip

"""Settings that none is; an empty table ("attack={}") is one, which changes nothing."""

ENCODER = 'encoders = ["zoo:digits-simclr"]\ndata = "digits"\nimages = 24\nattacked = 8\n'
MEASURE = '[[measures]]\nname = "breakaway_risk"\n'
PLANS = (
    "", "x", "encoders = 1", "encoders = []", 'encoders = [1]\ndata = "digits"', "\x00", "[" * 3000,
    f"encoders = {DEEP}", "a = " + '{b = ' * 2000 + "1" + "}" * 2000, f"{ENCODER}nosuch = 1", f"{ENCODER}eps = nan",
    f"{ENCODER}eps = inf", f"{ENCODER}eps = -1", f"{ENCODER}eps = 1e400", f"{ENCODER}eps = 'x'", f"{ENCODER}eps = true",
    f"{ENCODER}norm = 1", f"{ENCODER}norm = 'l3'", f"{ENCODER}norm = ''", f"{ENCODER}profile = ''",
    f"{ENCODER}profile = 'nosuch'", f"{ENCODER}seed = 1.5", f"{ENCODER}seed = true", f"{ENCODER}seed = 'x'",
    f"{ENCODER}batch_size = 0", f"{ENCODER}batch_size = -1", f"{ENCODER}device = 'nosuch'", f"{ENCODER}device = ''",
    f"{ENCODER}precision = 'fp8'", f"{ENCODER}compiled = 'yes'", f"{ENCODER}skip_corrupt = 1",
    f"{ENCODER}skip_duplicates = 1", f"{ENCODER}train = 1",
    f"{ENCODER}train_images = 5", f"{ENCODER}set = 'x'", f"{ENCODER}set = ['x']", f"{ENCODER}set = [1]",
    f"{ENCODER}seed = 1979-05-27", f"{ENCODER}seed = 99999999999999999999999", f"{ENCODER}measures = 1",
    f"{ENCODER}measures = [1]", f"{ENCODER}[[measures]]", f"{ENCODER}[[measures]]\nname = 1",
    f"{ENCODER}[[measures]]\nname = 'nosuch'", f"{ENCODER}[[measures]]\nname = 'masking'\nkind = 'checks'",
    f"{ENCODER}[[measures]]\nname = 'linf'\nkind = 'threats'", f"{ENCODER}[[measures]]\nname = 'pgd'\nkind = 1",
    f"{ENCODER}{MEASURE}nosuch = 1", f"{ENCODER}{MEASURE}divergence = 1", f"{ENCODER}{MEASURE}attack = 1",
    f"{ENCODER}{MEASURE}attack = 'nosuch'", f"{ENCODER}{MEASURE}attack = []",
    f"{ENCODER}{MEASURE}attack = {{name = 'pgd', steps = 'x'}}", f"{ENCODER}{MEASURE}attack = {{name = 'linf'}}",
    f"{ENCODER}{MEASURE}ball = {{radius = nan}}", f"{ENCODER}{MEASURE}ball = {{radius = 'inf'}}",
    f"{ENCODER}{MEASURE}ball = {{name = 'linf', radius = true}}", f"{ENCODER}{MEASURE}readouts = 'x'",
    f"{ENCODER}{MEASURE}readouts = [-1]", f"{ENCODER}{MEASURE}ball = {{kind = 'attacks', name = 'pgd'}}",
    'encoders = ["zoo:digits-simclr"]\ndata = "digits"\nimages = 1', 'encoders = ["zoo:digits-simclr"]\ndata = ""',
    'encoders = [""]\ndata = "digits"', 'encoders = ["zoo:digits-simclr"]\ndata = "digits"\nattacked = 9',
    'encoders = ["zoo:digits-simclr"]\ndata = "digits"\nimages = 24\nattacked = 100',
)  # fmt: skip

START = 'encoder = "zoo:cnn_a_mnist"\ndata = "digits?size=28"\nsteps = 1\nbatch_size = 8\n'
RECIPES = tuple(
    START + line
    for line in (
        "", "method = 1", "method = 'nosuch'", "method = {}", "method = []",
        "method = {name = 'simclr', temperature = nan}",
        "method = {name = 'simclr', temperature = 'x'}", "method = {name = 'simclr', hidden = 1.5}",
        "method = {name = 'simclr', hidden = -1}", "method = {name = 'simclr', nosuch = 1}", "method = 'pgd'",
        *(
            f"method = 'simclr'\n{line}"
            for line in (
                "nosuch = 1", "epochs = 0", "epochs = -1", "epochs = 'x'", "accumulate = 0", "accumulate = 3",
                "seed = 1.5", "seed = true", "images = 0", "images = -1", "images = 1", "ema = nan", "ema = 2",
                "ema = 'x'", "clip = 0", "clip = nan", "clip = inf", "precision = 'fp8'", "precision = 1",
                "batchnorm = 'x'", "batchnorm = 'split'", "freeze = '0'", "freeze = ['x']",
                "lora = 1", "lora = {rank = 2}",
                "corrupt = 'never'", "corruption = 'nosuch'", "corruption = 1",
                "corruption = {name = 'gamma', gamma = nan}", "snapshots = -1", "device = 'nosuch'", "device = ''",
                "views = 1", "views = {nosuch = 1}", "views = {crop = [2, 1]}", "views = {crop = [0.5]}",
                "views = {crop = 'x'}", "views = {flip = 2}", "views = {flip = nan}", "views = {flip = 'x'}",
                "optimiser = 'adam'", "optimiser = {name = 'nosuch'}", "optimiser = {rate = nan}",
                "optimiser = {rate = inf}", "optimiser = {rate = 0}", "optimiser = {rate = -1}",
                "optimiser = {weight_decay = nan}", "optimiser = {weight_decay = -1}", "adversary = 1",
                "certified = 1", "certified = {certifier = 'crown'}", "certified = {certifier = 'pgd'}",
                "certified = {ramp = 2}", "certified = {mix = nan}", "certified = {threat = 'uniform'}",
                "certified = {most = 0}", "certified = {}\nadversary = {}",
                "adversary = {threat = 'nosuch'}", "adversary = {threat = {name = 'linf', radius = nan}}",
                "adversary = {threat = {name = 'linf', radius = -1}}", "adversary = {attack = 'linf'}",
                "adversary = {attack = {name = 'pgd', steps = 0}}", "adversary = {objective = 'nosuch'}", "track = 1",
                "track = ['nosuch']", "monitor = 1", "monitor = {nosuch = 1}", f"views = {DEEP}",
            )
        ),
    )
)  # fmt: skip
STUDIES = (
    "", "x", "test = 1", "test = 'digits'", "test = 'digits'\nmethods = 1", "test = 'digits'\nmethods = []",
    "test = 'digits'\n[[methods]]", "test = 'digits'\n[[methods]]\ntitle = 1", "test = ''\n[[methods]]\ntitle = 'a'",
    f"{START}test = 'digits'\ntest_images = 'x'\n[[methods]]\ntitle = 'a'\nmethod = 'simclr'",
    f"{START}test = 'digits'\ncolumns = 1\n[[methods]]\ntitle = 'a'\nmethod = 'simclr'",
    f"{START}test = 'digits'\nprobes = ['nosuch']\n[[methods]]\ntitle = 'a'\nmethod = 'simclr'",
    f"{START}test = 'digits'\nprobes = [1]\n[[methods]]\ntitle = 'a'\nmethod = 'simclr'",
    f"{START}test = 'digits'\n[[methods]]\ntitle = 'a'\nmethod = 'nosuch'", f"test = {DEEP}",
    f"{START}test = 'digits'\n[[methods]]\ntitle = 'untrained'\nmethod = 'simclr'",
    f"{START}test = 'digits'\n[[columns]]\ntitle = 'a'\n[[methods]]\ntitle = 'a'\nmethod = 'simclr'",
    f"{START}test = 'digits'\n[[methods]]\ntitle = 'a'\nmethod = 'simclr'\n[[methods]]\ntitle = 'a'\nmethod = 'byol'",
)  # fmt: skip
TABLES = ("", "x", "title = 1", "like = 'nosuch'", "like = 1", f"like = {DEEP}", "[profiles.small]", "audits = 1")

PROFILE = 'description = "x"\nimages = 24\nattacked = 8\n'
PROFILES = (
    "", "x", PROFILE, f"{PROFILE}measures = 1", f"{PROFILE}measures = []", f"{PROFILE}measures = ['nosuch']",
    f"{PROFILE}measures = [1]", f"{PROFILE}measures = ['breakaway_risk']\nnosuch = 1", "like = 'nosuch'", "like = 1",
    "like = 'quick'\nimages = 'x'", "like = 'quick'\nimages = -1", "like = 'quick'\nattacked = 1.5",
    "like = 'quick'\ndefaults = 1", "like = 'quick'\ndefaults = { nosuch = 1 }", "like = 'quick'\nexamined = 0.5",
    "like = 'quick'\ndefaults = { attack = 'nosuch' }", "like = 'quick'\nshared_searches = 1",
    *(f"like = 'quick'\nmeasures = [{{ name = 'breakaway_risk', {field} }}]" for field in (
        "ball = { radius = { eps = 0 } }", "ball = { radius = { eps = 'x' } }", "ball = { radius = { eps = nan } }",
        "ball = { radius = { eps = 1, most = -1 } }", "each = 1", "each = { 'attack.steps' = [] }",
        "each = { 'attack.steps' = ['x'] }", "each = { '' = [1] }", "each = { 'name.x' = [1] }",
        "divergence = { eps = 1 }",
    )),
)  # fmt: skip


def texts() -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield command lines that end with the name of a TOML file, and what is in it."""
    profiled = ("audit", "zoo:digits-simclr", "--data", "digits", "--profile")
    files = {("audit",): PLANS, ("train",): RECIPES, ("study",): STUDIES, ("reproduce",): TABLES, profiled: PROFILES}
    for before, bodies in files.items():
        yield from ((before, body) for body in bodies)


def settings() -> Iterator[Command]:
    """Yield `--set` with what cannot be set."""
    for text in SETTINGS:
        yield Command((*BASES["audit"], "--set", text), "--set")
    for text in ("", "x", "=1", "nosuch=1", "method.nosuch=1", "epochs=x", "epochs=nan", f"views={DEEP}", "encoder=1"):
        yield Command((*BASES["train"], "--set", text), "--set")
    for text in ("", "x", "breakaway_risk", "< 1", "breakaway_risk < ", "breakaway_risk < nan",
                 "breakaway_risk < 1e400", "breakaway_risk < 1e999999999", "nosuch < 1",
                 "breakaway_risk.nosuch < 1", "breakaway_risk == 0",
                 "breakaway_risk < 4/0", "checks.nosuch == pass", "checks.frozen == good", "checks.frozen < pass",
                 "breakaway_risk < 50"):  # fmt: skip
        yield Command(("check", "{run}", "--require", text), "no requirement")


def count(cases: Iterator[Any]) -> int:
    """Return how many there are."""
    return sum(1 for _ in cases)


def spread(cases: Iterator[Any], most: int) -> list[Any]:
    """Return some cases, evenly from the first to the last."""
    every = list(cases)
    return list(itertools.islice(every, 0, None, max(1, len(every) // most)))[:most]
