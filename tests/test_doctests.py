"""The examples in docstrings: they run, and every function of numerics and every part that is built by hand has one."""

import doctest
import inspect
import math
import pkgutil
from importlib import import_module
from types import ModuleType

import pytest
import torch

import holdfast
from holdfast.core import registry

WITH_EXAMPLES = [
    module.name
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast.")
    if ">>>" in (inspect.getsource(import_module(module.name)) if not module.name.endswith("__main__") else "")
]
NUMERICS = [m.name for m in pkgutil.walk_packages(import_module("holdfast.numerics").__path__, "holdfast.numerics.")]
KINDS = (
    "attacks", "certifiers", "divergences", "estimators", "failures", "learners", "methods", "objectives", "probes",
    "rescalings", "smoothing", "threats",
)  # fmt: skip


def public_functions(module: ModuleType) -> list[str]:
    own = [f for f in vars(module).values() if getattr(f, "__module__", "") == module.__name__ and callable(f)]
    return [f.__name__ for f in own if not isinstance(f, type) and not getattr(f, "__name__", "_").startswith("_")]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of the module are at hand, and so are torch and math."""
    monkeypatch.setattr("linecache.checkcache", lambda *_: None)  # looks, for each example, at every file of torch
    assert doctest.testmod(import_module(name), extraglobs={"torch": torch, "math": math}).failed == 0


@pytest.mark.parametrize("name", NUMERICS)
def test_functions_of_numerics_have_an_example(name: str) -> None:
    module = import_module(name)
    assert not [f for f in public_functions(module) if ">>>" not in (inspect.getdoc(vars(module)[f]) or "")]


@pytest.mark.parametrize("kind", KINDS)
def test_parts_have_an_example(kind: str) -> None:
    parts = [registry.find(kind, name) for name in registry.names(kind)]  # with those that other tests have registered
    ours = [part for part in parts if part.__module__.startswith("holdfast.")]
    assert not [part.__name__ for part in ours if ">>>" not in (part.__doc__ or "")]
