"""The folder is the registry: `holdfast/parts/attacks/pgd.py` holds one public dataclass, found as ("attacks", "pgd").

A kind whose package names `GROUPS` keeps its parts in these folders; a folder `shared` holds none.

Other packages join through entry points: group `holdfast.attacks`, name `pgd`, value `package.module:Class`. A class
of a script or a notebook joins for as long as the process lives, by `register`.
"""

import dataclasses
import importlib
import importlib.util
import math
import os
import pkgutil
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from holdfast.runtime.checked import derive_name, describe_value
from holdfast.runtime.doors import digest_file, real, regular
from holdfast.runtime.errors import BadData, BadValue, HoldfastError, UnknownName, os_reason, unknown
from holdfast.runtime.foreign import foreign
from holdfast.runtime.names import file, parse_names
from holdfast.runtime.outline import outline

KINDS = (
    "encoders", "data", "threats", "divergences", "rescalings", "objectives", "attacks", "certifiers", "smoothing",
    "probes", "estimators", "learners", "failures", "quantities", "observations", "disturbances", "measures", "checks",
    "methods", "engines",
)  # fmt: skip
"""Kinds of parts, each a folder of `holdfast.parts` (but see `HOMES`) and an entry-point group `holdfast.<kind>`."""

HOMES = {"encoders": "holdfast.sources.encoders", "data": "holdfast.sources.data"}
"""Folders of kinds that are no folders of `holdfast.parts`."""

BY_NAME = ("divergences",)
"""Kinds whose parts are written by their names alone, where they have no fields."""

LARGEST = 2**24
"""Bytes of a Python file of parts, at most."""

OWN = "HOLDFAST_PARTS"
"""Environment variable that names Python files which register parts of a user's own; worker processes inherit it."""

Part = TypeVar("Part", bound=type)

# What `register` has made known, and the digests of the files that did so
_here: dict[str, dict[str, type]] = {kind: {} for kind in KINDS}
_files: dict[Path, str] = {}


def register(kind: str) -> Callable[[Part], Part]:
    """Return a decorator that makes a class of your own known in this process: `RelativeDrift` as "relative_drift".

        @register("measures")
        @dataclass(frozen=True)
        class RelativeDrift(Measure): ...

    The same name again takes its place. Worker processes know what the files named by `holdfast --parts` register, and
    what packages name as entry points.

    Raises:
        HoldfastError: a kind that nobody knows, a class that is no dataclass, the name of a part that is there already.
    """
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)

    def decorate(cls: Part) -> Part:
        name = derive_name(cls)
        if "__dataclass_fields__" not in vars(cls):  # an own one, not that of a class above
            raise BadValue(f"{cls.__name__}: expected a dataclass; put @register above @dataclass(frozen=True)")
        point = _outside(kind).get(name)
        if point is not None and point.value == f"{cls.__module__}:{cls.__qualname__}":
            return cls  # known by its package's entry point already
        if name in names(kind) and name not in _here[kind]:
            raise BadValue(f"{cls.__name__}: {name!r} is there already, in {kind}; give yours another name")
        _here[kind][name] = cls
        forget()  # what has been looked up lacks it
        return cls

    return decorate


def load(path: str | Path) -> None:
    """Run a Python file that registers parts of your own; once in a process, however often it is asked for.

    Args:
        path: the file. It runs with your rights, so it should be yours, or its author one you trust.

    Raises:
        HoldfastError: no such file, one that fails, one that registers nothing, two of one name.
    """
    file = real(Path(path).expanduser())
    if file in _files:
        return
    if file.suffix != ".py" or not file.is_file():
        raise BadValue(f"parts: expected a Python file, got {str(path)!r}; a package's parts are its entry points")
    try:
        regular(file, LARGEST)
    except OSError as error:
        raise BadData(f"parts: cannot read {str(path)!r} ({os_reason(error)}); give a Python file") from error
    if file.name in files():
        raise BadValue(f"parts: expected files of different names, got two called {file.name!r}; rename one")
    _files[file] = digest_file(file)  # first, for what it registers looks here again
    try:
        _run(file, str(path))
    except BaseException:
        del _files[file]  # so that it is refused again, not taken for run
        raise


def _run(file: Path, path: str) -> None:
    """Run a file of parts as a module."""
    # A name of its own, so that a file called torch.py hides no package
    module_spec = importlib.util.spec_from_file_location(f"holdfast_parts_{file.stem}", file)
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    # Before it runs: dataclasses look for the module of a class there
    sys.modules[module.__name__] = module
    before = sum(map(len, _here.values()))
    with foreign(repr(path), "run", wrap=True):
        module_spec.loader.exec_module(module)
    if sum(map(len, _here.values())) == before:
        raise BadData(
            f"{path!r} registers no part: put @holdfast.measure above a function, or @register from "
            "holdfast.extend above a class"
        )


def paths() -> list[str]:
    """Return where the files of parts are that this process has run."""
    return [str(file) for file in _files]


def files() -> dict[str, str]:
    """Return the files of parts that this process has run: name -> SHA-256."""
    return {file.name: digest for file, digest in _files.items()}


def _load_own() -> None:
    for path in filter(None, os.environ.get(OWN, "").split(os.pathsep)):
        load(path)


def forget() -> None:
    """Look for parts anew, where they have changed since."""
    # `_inside` stays, for the files of the package do not change
    for cached in (names, find, _outside, _points, _name_of):
        cached.cache_clear()


@cache
def _outside(kind: str) -> dict[str, Any]:
    """Return the parts of other packages of a kind: name -> entry point."""
    return {point.name: point for point in _points().select(group=f"holdfast.{kind}")}


@cache
def _points() -> Any:
    """Return all entry points: the files of all packages are read for them, once."""
    return entry_points()


@cache
def _inside(kind: str) -> dict[str, str]:
    """Return Holdfast's own parts of a kind: name -> module."""
    home = HOMES.get(kind, f"holdfast.parts.{kind}")
    # Read and not imported: the packages of parts would bring torch
    groups = parse_names(home, "GROUPS")
    return {
        module.name: f"{place}.{module.name}"
        for place in (home, *(f"{home}.{group}" for group in groups))
        for module in pkgutil.iter_modules([str(file(place).parent)])
        # A group is a folder of parts and no part itself
        if module.name != "shared" and not (place == home and module.name in groups)
    }


def list_installed(kind: str) -> tuple[str, ...]:
    """Return the names of the parts of a kind that are installed, sorted; those of files of one's own are not."""
    return tuple(sorted({*_inside(kind), *_outside(kind)}))


@cache
def names(kind: str) -> tuple[str, ...]:
    """Return the names of all parts of a kind, sorted."""
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    # Files of the variable first, since they register names
    _load_own()
    return tuple(sorted({*list_installed(kind), *_here[kind]}))


def home(kind: str, name: str) -> str | None:
    """Return the module of one of Holdfast's own parts; None for a part of others."""
    # Where packages have the name, theirs is found
    return None if name in _outside(kind) else _inside(kind).get(name)


def all_own() -> bool:
    """Whether all parts are Holdfast's own: no other package, and no file of a user's own, has any."""
    _load_own()
    return not any(_here[kind] or _outside(kind) for kind in KINDS)


def find_outline(kind: str, name: str) -> type:
    """Return the class of a part, to be looked at alone: one of Holdfast's own as its file says it, see `outline`.

    Raises:
        HoldfastError: as `find` does.
    """
    module = home(kind, name)
    return find(kind, name) if module is None else outline(module)


def _singular(kind: str) -> str:
    """Return what one part of a kind is called: "measure" of "measures", "quantity" of "quantities"."""
    return kind[:-3] + "y" if kind.endswith("ies") else kind.removesuffix("s")


@cache
def find(kind: str, name: str) -> type:
    """Return the class of a part, for example `find("attacks", "pgd")`.

    Raises:
        HoldfastError: a name that is not known ("did you mean ..."), or a file without exactly one public dataclass.
    """
    if name not in names(kind):
        own = "; a measure of your own needs --parts FILE" if kind == "measures" and not _files else ""
        raise UnknownName(f"{unknown(_singular(kind), name, names(kind))}{own}")
    # What this process registered comes before what packages bring, and that before what is here
    if name in _here[kind]:
        return _here[kind][name]
    if name in _outside(kind):
        with foreign(f"the package of the {_singular(kind)} {name!r}", "imported", wrap=True):
            return _outside(kind)[name].load()
    module = importlib.import_module(_inside(kind)[name])
    public = [
        value
        for key, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and not key.startswith("_")
        if "__dataclass_fields__" in vars(value)  # others are no parts: the images that a data source opens
    ]
    if len(public) != 1:
        raise BadValue(f"{module.__name__} must hold exactly one public dataclass, it holds {len(public)}")
    return public[0]


@cache
def _name_of(cls: type) -> tuple[str, str]:
    match cls.__module__.split("."):
        # Parts of ours are told by their module, without a search through all
        case ["holdfast", "parts" | "sources", kind, *_, name] if _inside(kind).get(name) == cls.__module__:
            return kind, name
    _load_own()
    for kind in KINDS:
        for name in (*_here[kind], *_outside(kind)):
            if find(kind, name) is cls:
                return kind, name
    # Of a class that another one has replaced, such as a cell of a notebook that ran again
    if any(derive_name(cls) in own for own in _here.values()):
        raise BadValue(f"{derive_name(cls)}: expected one part of this name, got another since; name them apart")
    raise BadValue(
        f"{cls.__name__} is not a registered part: put @register from holdfast.extend above it, or name it in an entry "
        "point of your package"
    )


def _kind(part: object) -> str | None:
    return _name_of(type(part))[0] if dataclasses.is_dataclass(part) else None


def _with_kind(value: Any, usual: object) -> Any:
    """Return the spec of a part with the kind that its place implies, and "inf" as a number where a number stood."""
    if isinstance(value, str) and value in ("inf", "-inf") and isinstance(usual, float):
        return float(value)
    if isinstance(value, Mapping) and "kind" not in value and _kind(usual):
        return {"kind": _kind(usual), **value}
    return value


def about_folder(cls: type) -> str:
    """Return what the folder of one of Holdfast's own parts says of itself, in words; "" for parts of others."""
    folder = cls.__module__.rpartition(".")[0]
    if not any(cls.__module__ == module for module in _inside(_name_of(cls)[0]).values()):
        return ""
    return (importlib.import_module(folder).__doc__ or "").partition("\n")[0].rstrip(".")


def part_name(part: object) -> str:
    """Return the name under which a part (or its class) is registered."""
    return _name_of(part if isinstance(part, type) else type(part))[1]


def spec(part: Any) -> Any:
    """Return a part as plain JSON data: {"kind": "attacks", "name": "pgd", ...its fields}; see `BY_NAME`."""
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        kind, name = _name_of(type(part))
        fields = {f.name: spec(getattr(part, f.name)) for f in dataclasses.fields(part)}
        # As commands and older records have it
        if kind in BY_NAME and not fields:
            return name
        return {"kind": kind, "name": name, **fields}
    if isinstance(part, (tuple, list)):
        return [spec(item) for item in part]
    if isinstance(part, float) and math.isinf(part):
        return str(part)  # JSON has no word for it
    if part is None or isinstance(part, (bool, int, float, str)):
        return part
    raise BadValue(
        f"{describe_value(part)} has no JSON form: parts hold numbers, names, other parts and tuples of them"
    )


def build(data: Any) -> Any:
    """Return the part that `spec` described; the inverse of `spec`."""
    if isinstance(data, Mapping):
        values = dict(data)
        kind, name = values.pop("kind", None), values.pop("name", None)
        if not isinstance(kind, str) or not isinstance(name, str):
            raise BadValue(f"a part needs a 'kind' and a 'name', got {describe_value(data)}")
        return configure(find(kind, name), values)
    if isinstance(data, (list, tuple)):  # tuples, for parts can be hashed
        return tuple(build(item) for item in data)
    return data


def part(kind: str, name: str, **fields: Any) -> Any:
    """Return a part by its name, for example `part("attacks", "pgd", steps=20)`; fields are parts or specs of them."""
    return configure(find(kind, name), fields)


def configure(cls: type, values: Mapping[str, Any]) -> Any:
    """Return `cls(**values)`, made of specs of its parts; its arguments are checked there, see `Checked`."""
    # The default of a field tells which kind of part, or whether a number, stands there
    usual = {f.name: f.default for f in dataclasses.fields(cls)}
    made = {key: build(_with_kind(value, usual.get(key))) for key, value in values.items()}
    try:
        return cls(**made)
    except HoldfastError:
        for key, value in made.items():
            _refuse_base(cls, key, value, usual.get(key))
        raise


def _refuse_base(cls: type, key: str, value: Any, usual: object) -> None:
    """Refuse a part of the right kind that a field has no use for, such as a noise where a ball is meant."""
    kind = _kind(usual)
    if kind is None or _kind(value) != kind:
        return
    base = get_type_hints(cls).get(key)
    if not isinstance(base, type) or isinstance(value, base):
        return
    fit, expected = [name for name in names(kind) if issubclass(find(kind, name), base)], derive_name(base)
    article = "an" if expected[0] in "aeiou" else "a"
    raise BadValue(
        f"{derive_name(cls)}.{key}: expected {article} {expected}, got {part_name(value)}; known: {', '.join(fit)}"
    )
