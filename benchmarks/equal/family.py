"""Families of foreign things that Holdfast rebuilds, each compared with its original."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import benchmarks.equal as here


@dataclass(frozen=True)
class Case:
    """What became of one comparison.

    Attributes:
        name: what was compared.
        difference: the largest, in the unit of its family; None: it was refused.
        refused: why.
    """

    name: str
    difference: float | None
    refused: str = ""


@dataclass(frozen=True)
class Family:
    """Things of one kind, and how each is compared with its original.

    Attributes:
        title: what they are, in a few words.
        ours: what Holdfast makes of them.
        theirs: what that is compared with, and on what.
        unit: of the differences.
        limit: the largest difference that counts as none.
        packages: what they belong to, whose versions are kept.
        cases: makes the comparisons, one by one.
    """

    title: str
    ours: str
    theirs: str
    unit: str
    limit: float
    packages: tuple[str, ...]
    cases: Callable[[], Iterator[Case]]

    @property
    def versions(self) -> dict[str, str]:
        """The versions that are installed here."""
        return {package: found for package in self.packages if (found := _version(package))}


@cache
def families() -> dict[str, Family]:
    """Return all families by the names of their files: whatever module of this folder has a `FAMILY`."""
    modules = {entry.name: importlib.import_module(f"{here.__name__}.{entry.name}") for entry in _files()}
    return {name: module.FAMILY for name, module in modules.items() if hasattr(module, "FAMILY")}


def _files() -> list[pkgutil.ModuleInfo]:
    return [entry for entry in pkgutil.iter_modules(here.__path__) if entry.name != "__main__"]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
