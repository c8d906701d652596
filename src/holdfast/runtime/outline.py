"""Modules of Holdfast read without being run: their constants, and their classes without methods.

What a part says of itself is in its file. A command that only tells what there is reads it there, and torch, which most
files need to run, is not imported.
"""

import __future__

import ast
import sys
from functools import cache
from importlib import import_module
from tokenize import STRING, generate_tokens
from types import new_class
from typing import Any, ClassVar

from holdfast.runtime.names import file

_STDLIB = sys.stdlib_module_names


def headline(module: str) -> str:
    """Return the sentence that a module begins with; only its beginning is read."""
    with file(module).open(encoding="utf-8") as lines:
        # The first token is the docstring, if there is one
        first = next(generate_tokens(lines.readline))
    return ast.literal_eval(first.string).partition("\n")[0] if first.type == STRING else ""


def outline(module: str) -> type:
    """Return the one public dataclass of a module: its docstrings, bases, fields with defaults, and constants.

    It can be looked at as if it were the class, and makes instances that show themselves as those of the class do; only
    methods and properties are missing, and what other packages define is a name.
    """
    names = _names(module)
    classes = {name: node for name, node in names.nodes.items() if isinstance(node, ast.ClassDef) and name[0] != "_"}
    (public,) = (name for name, node in classes.items() if any(map(_makes_dataclass, node.decorator_list)))
    return names[public]


def method_doc(module: str, method: str) -> str:
    """Return the docstring of a method of the one public dataclass of a module."""
    nodes = (node for node in _names(module).nodes.values() if isinstance(node, ast.ClassDef) and node.name[0] != "_")
    methods = (inner for node in nodes for inner in node.body if isinstance(inner, ast.FunctionDef))
    return next((ast.get_docstring(inner) or "" for inner in methods if inner.name == method), "")


def function_doc(module: str, function: str) -> str:
    """Return the docstring of a function of a module."""
    node = _names(module).nodes[function]
    return ast.get_docstring(node) or "" if isinstance(node, ast.FunctionDef) else ""


def constant(module: str, name: str) -> Any:
    """Return what a module binds to a name at its top."""
    return _names(module)[name]


class _Elsewhere(type):
    """The type of what other packages define: a name, of which parts are names too."""

    def __getattr__(cls, name: str) -> "_Elsewhere":
        # Python asks for dunders itself, and must hear that there are none
        if name.startswith("__"):
            raise AttributeError(name)
        return _Elsewhere(name, (), {})


class _Module:
    """A module of Holdfast whose names are worked out when they are used."""

    def __init__(self, name: str):
        self.names = _names(name)

    def __getattr__(self, name: str) -> Any:
        return self.names[name]


class _Later:
    """A constant of a class, worked out when it is looked at: most are not, and some would need other packages."""

    def __init__(self, names: "_Names", value: ast.expr):
        self.names, self.value = names, value

    def __get__(self, instance: object, owner: type) -> Any:
        return self.names.evaluate(self.value)


class _Names(dict[str, Any]):
    """The names at the top of a module, worked out when they are used: as globals, Python asks `__missing__`."""

    def __init__(self, module: str):
        super().__init__()
        self.nodes: dict[str, ast.stmt] = {}
        self._gather(ast.parse(file(module).read_bytes()).body)

    def _gather(self, body: list[ast.stmt]) -> None:
        """Note where each name is bound, also under `if TYPE_CHECKING`."""
        for node in body:
            match node:
                case ast.If(body=inner):
                    self._gather(inner)
                case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                    self.nodes |= {alias.asname or alias.name.partition(".")[0]: node for alias in aliases}
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                    self.nodes[name] = node
                # Names in tuples too: `A, B = 1, 2`
                case ast.Assign(targets=targets):
                    bound = [inner for target in targets for inner in ast.walk(target)]
                    self.nodes |= {inner.id: node for inner in bound if isinstance(inner, ast.Name)}
                case ast.AnnAssign(target=ast.Name(id=name)):
                    self.nodes[name] = node

    def __missing__(self, name: str) -> Any:
        match self.nodes.get(name):  # a KeyError sends Python on to its builtins
            case None:
                raise KeyError(name)
            case ast.Import(names=aliases):
                whole = next(alias.name for alias in aliases if name in (alias.asname, alias.name.partition(".")[0]))
                value = import_module(whole) if whole.partition(".")[0] in _STDLIB else _Elsewhere(name, (), {})
            case ast.ImportFrom(module=str(module), names=aliases):
                there = next(alias.name for alias in aliases if (alias.asname or alias.name) == name)
                value = _resolve_import(module, there)
            case ast.ClassDef() as node:
                value = self._class(node)
            case node:
                # With annotations as text: they may name what only type checkers import
                exec(compile(ast.Module([node], []), "<outline>", "exec", __future__.annotations.compiler_flag), self)
                value = self[name]
        self[name] = value  # a plain entry from now on
        return value

    def evaluate(self, node: ast.expr) -> Any:
        """Return the value of an expression of the module."""
        return eval(compile(ast.Expression(node), "<outline>", "eval"), self)

    def _class(self, node: ast.ClassDef) -> type:
        """Return a class without its methods; a dataclass is one."""
        annotations: dict[str, Any] = {}
        body: dict[str, Any] = {"__module__": __name__, "__annotations__": annotations}
        if (doc := ast.get_docstring(node, clean=False)) is not None:
            body["__doc__"] = doc
        for inner in node.body:
            match inner:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                    # Fields are needed to make the dataclass, constants may never be looked at
                    later = ast.unparse(annotation).startswith("ClassVar")
                    annotations[name] = ClassVar if later else object
                    if value is not None:
                        body[name] = _Later(self, value) if later else self.evaluate(value)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    body[name] = _Later(self, value)
                case ast.FunctionDef(name=name) if not name.startswith("__"):
                    body[name] = None  # hides what it overrides
        bases = tuple(self.evaluate(base) for base in node.bases)
        cls: Any = new_class(node.name, bases, exec_body=lambda inner: inner.update(body))
        # From the innermost outwards, as Python does
        for decorator in reversed(node.decorator_list):
            cls = self.evaluate(decorator)(cls)
        return cls


def _makes_dataclass(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).partition("(")[0] in ("dataclass", "dataclasses.dataclass")


@cache
def _names(module: str) -> _Names:
    return _Names(module)


def _resolve_import(module: str, name: str) -> Any:
    """Return a name of a module: of Holdfast read, of Python's own imported, of others the name."""
    package = module.partition(".")[0]
    if package == __name__.partition(".")[0]:
        names = _names(module)
        return names[name] if name in names.nodes else _Module(f"{module}.{name}")
    return getattr(import_module(module), name) if package in _STDLIB else _Elsewhere(name, (), {})
