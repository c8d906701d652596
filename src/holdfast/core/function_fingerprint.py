"""What a function of a user's own does, as a few digits: its code, and the values of all that it reads from outside."""

import ast
import dataclasses
import dis
import functools
import hashlib
import inspect
import json
import sys
import sysconfig
import textwrap
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.runtime.checked import describe_value
from holdfast.runtime.errors import Unsupported

_INSTALLED = tuple(sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))


def fingerprint(function: Callable[..., Any], name: str = "the function") -> str:
    """Return 16 hexadecimal digits of a function: other digits where it may return something else.

    They are of its source without comments (of its bytecode where there is no source, and for a lambda), its defaults,
    and of what it reads from outside: numbers, texts, lists, tensors, networks and own functions by their content,
    modules, and functions and classes of other packages that are installed, by their names.

    Args:
        function: the function.
        name: what it is called in errors.

    Raises:
        HoldfastError: it reads something whose content cannot be told, such as an open file.

    Example:
        >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 1) != fingerprint(lambda x: x + 2)
        True
    """
    described = _describe(function, (), name, _package(function))
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:16]


def _describe(value: Any, above: tuple[Any, ...], where: str, home: str) -> Any:
    """Return a value as JSON data that differ where it does."""
    inner = functools.partial(_describe, above=(*above, value), where=where, home=home)
    # The chain of what holds it ends there, for a value may hold itself
    if any(value is other for other in above):
        return "itself"
    if (wrapped := getattr(value, "__wrapped__", None)) is not None and not isinstance(value, types.FunctionType):
        return ["around", inner(wrapped)]  # a decorated function that is an object
    match value:
        case None | bool() | int() | float() | complex() | str() | bytes() | PurePath() | slice() | range():
            return repr(value)
        case torch.dtype() | torch.device() | np.dtype() | np.generic() | types.EllipsisType():
            return repr(value)
        case list() | tuple():
            return [type(value).__name__, *map(inner, value)]
        case set() | frozenset():
            # A set has another order in every process
            return ["set", *sorted(json.dumps(inner(item)) for item in value)]
        case Mapping():
            return ["table", *([inner(key), inner(item)] for key, item in value.items())]
        case Tensor():
            # By their bytes: NumPy has no bfloat16, and NaN does not equal itself
            return _numbers(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy(), value)
        case np.ndarray() if value.dtype.hasobject is False:
            return _numbers(np.ascontiguousarray(value), value)
        case nn.Module():
            # Kinds of layers too: weights do not tell a ReLU from a GELU
            kinds = [inner(type(module)) for module in value.modules()]
            return ["network", kinds, inner(dict(value.state_dict())), value.training]
        case functools.partial():
            return ["partial", inner(value.func), inner(value.args), inner(value.keywords)]
        case types.ModuleType():
            return value.__name__
        case types.MethodType():
            return [inner(value.__func__), inner(value.__self__)]
        # What packages bring is known by its name
        case types.FunctionType():
            return _name(value) if _of_another_package(value, home) else _function(value, inner)
        case staticmethod() | classmethod():
            return inner(value.__func__)
        case property():
            return ["property", inner(value.fget), inner(value.fset)]
        case type():
            return _name(value) if _of_another_package(value, home) else _class(value, inner)
        case types.BuiltinFunctionType() | types.MethodDescriptorType() | np.ufunc():
            return f"{getattr(value, '__module__', None)}.{value.__name__}"
    if dataclasses.is_dataclass(value):
        return [inner(type(value)), *(inner(getattr(value, field.name)) for field in dataclasses.fields(value))]
    raise Unsupported(
        f"{where}: expected a function that reads numbers, texts, tensors, networks and functions, got one that reads "
        f"{describe_value(value)}, whose content cannot be told; make it inside the function"
    )


def _function(function: types.FunctionType, inner: Callable[[Any], Any]) -> list[Any]:
    """Return the code of a function, and the values of its defaults and of the names that it reads from outside."""
    code = function.__code__
    values: dict[str, Any] = {}
    # Names of the functions around it
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # nothing is in it yet
            values[name] = cell.cell_contents
    # What is missing there is built in
    values |= {name: function.__globals__[name] for name in _globals(code) if name in function.__globals__}
    defaults = (function.__defaults__, function.__kwdefaults__)
    read = [[name, inner(values[name])] for name in sorted(values)]
    # Source before bytecode, which differs between versions of Python
    return [_source(function) or _bytecode(code), inner(defaults), *read]


def _class(cls: type, inner: Callable[[Any], Any]) -> list[Any]:
    """Return what a class is made of, its methods and values."""
    # Methods and values, without what Python itself notes in a class
    own = {key: item for key, item in vars(cls).items() if not key.startswith(("_abc", "__")) or callable(item)}
    return [list(map(inner, cls.__bases__)), *([key, inner(item)] for key, item in own.items() if item is not cls)]


def _globals(code: types.CodeType) -> set[str]:
    """Return the global names that a code reads, those in functions inside it too."""
    # Names alone, not attributes: the content of their owner holds these
    names = {item.argval for item in dis.get_instructions(code) if item.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(_globals(inner) for inner in code.co_consts if isinstance(inner, types.CodeType)))


def _source(function: types.FunctionType) -> str:
    """Return the source of a function without comments and decorators; "" where it is not what runs."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        assert isinstance(tree, ast.FunctionDef)
        tree.decorator_list = []
        compiled = compile(ast.Module([tree], []), "", "exec").co_consts
    except (AssertionError, OSError, SyntaxError, TypeError, ValueError):
        return ""
    codes = [code for code in compiled if isinstance(code, types.CodeType)]
    # A file may have changed since it was imported: its source counts where it compiles to what runs
    return ast.unparse(tree) if _bytecode(function.__code__) in map(_bytecode, codes) else ""


def _bytecode(code: types.CodeType) -> list[Any]:
    # Functions inside as their own code, whose text would have an address in it
    constants = [_bytecode(item) if isinstance(item, types.CodeType) else repr(item) for item in code.co_consts]
    return [code.co_code.hex(), constants, code.co_names, code.co_varnames, code.co_freevars]


def _numbers(data: np.ndarray, value: Tensor | np.ndarray) -> list[str]:
    return [str(value.dtype), str(tuple(value.shape)), hashlib.sha256(data.tobytes()).hexdigest()]


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _package(value: Any) -> str:
    return (getattr(value, "__module__", None) or "").partition(".")[0]


def _of_another_package(value: Any, home: str) -> bool:
    """Whether a function or class is of an installed package that is not the home of the one it serves."""
    if (package := _package(value)) == home:
        return False
    module = getattr(value, "__module__", None) or ""
    if isinstance(value, types.FunctionType):
        file = value.__code__.co_filename
    else:
        # A class has no code of its own; its module tells, and one without a file is a notebook's or built in
        file = getattr(sys.modules.get(module), "__file__", None) or ("" if module == "__main__" else "<frozen")
    return package == "holdfast" or file.startswith((*_INSTALLED, "<frozen"))
