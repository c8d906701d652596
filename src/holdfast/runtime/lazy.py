"""Packages whose names are imported when they are first used, so that a command brings only what it needs."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package."""
    module = sys.modules[package]

    def get(name: str) -> Any:
        """Return what is imported when it is first asked for."""
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(module, name, value)  # Python does not ask again
        return value

    def names() -> list[str]:
        """Return the names that completion offers."""
        return sorted({*vars(module), *homes})

    return get, names
