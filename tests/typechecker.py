"""The run-time type checker of the tests: annotations and array shapes are enforced at the calls of a test.

Those of the modules that name shapes of arrays, which no other tool checks; pyright reads all annotations. A function
is checked at its first calls in each test and then at one in so many: a search calls its bounds thousands of times with
the same shapes, and checking them all took a third of the suite's time.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import jaxtyping
import torch
from beartype import BeartypeConf, beartype

FIRST, THEN = 10, 100

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float, as PEP 484 says

_at_every_call = jaxtyping.jaxtyped
_calls: dict[int, int] = {}
_on: list[bool] = [False]


def list_modules(package: ModuleSpec | None) -> list[str]:
    """Return the names of the modules of a package that name shapes of arrays."""
    assert package is not None
    assert package.origin is not None
    root = Path(package.origin).parent
    files = [path.relative_to(root.parent) for path in root.rglob("*.py") if "jaxtyping" in path.read_text("utf-8")]
    return [".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in files]


@contextmanager
def off() -> Iterator[None]:
    """Check nothing inside: what users meet, who have no such checker."""
    _on.append(False)
    try:
        yield
    finally:
        _on.pop()


def new_test(on: bool) -> None:
    """Check every function's first calls again, where anything is checked in this test."""
    _on[0] = on
    _calls.clear()


def _jaxtyped(function: Any = None, *, typechecker: Any) -> Any:
    """Return a function that is checked at its first 10 calls in each test and then at one in 100."""
    if function is None:
        return functools.partial(_jaxtyped, typechecker=typechecker)
    if inspect.isclass(function):  # of a dataclass, what makes its instances
        if dataclasses.is_dataclass(function) and not hasattr(function.__init__, "__wrapped__"):
            function.__init__ = _jaxtyped(function.__init__, typechecker=typechecker)
        return function
    return _sampled(function, functools.cache(functools.partial(_at_every_call, function, typechecker=typechecker)))


def _sampled(function: Callable[..., Any], enforcing: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    mark = id(enforcing)  # which lives as long as what is returned

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not _on[-1] or torch.compiler.is_compiling():  # which cannot trace this
            return function(*args, **kwargs)
        calls = _calls[mark] = _calls.get(mark, -1) + 1
        wanted = enforcing() if calls < FIRST or calls % THEN == 0 else function  # made when it is first called
        return wanted(*args, **kwargs)

    return called


jaxtyping.jaxtyped = _jaxtyped  # what the import hook decorates every function with
