"""Names that packages know, read from their files: none is imported for it, so completion answers at once."""

import ast
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_REGISTERED = re.compile(r"^@register_model\b.*?^def (\w+)\(", re.DOTALL | re.MULTILINE)


@cache
def list_registered_models(package: str) -> tuple[str, ...]:
    """Return the models that the modules of timm or torchvision register; none where it is not installed."""
    files = _folder(package, "models").glob("*.py")
    return tuple(sorted(name for file in files for name in _REGISTERED.findall(file.read_text(encoding="utf-8"))))


@cache
def list_configured_models(package: str) -> tuple[str, ...]:
    """Return the models of which OpenCLIP has a configuration; none where it is not installed."""
    return tuple(sorted(file.stem for file in _folder(package, "model_configs").glob("*.json")))


@cache
def parse_names(module: str, name: str) -> tuple[str, ...]:
    """Return the texts of a list, or the keys of a dictionary, that a module binds to a name at its top."""
    path = file(module)
    if not path.is_file():
        return ()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            value = getattr(node, "value", None)
            items = value.keys if isinstance(value, ast.Dict) else getattr(value, "elts", [])
            return tuple(item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str))
    return ()


def file(module: str) -> Path:
    """Return the file of a module, which is not imported, nor are the packages that it is in; it may not exist."""
    package, *inner = module.split(".")
    path = _folder(package, *inner)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _folder(package: str, *inner: str) -> Path:
    """Return a folder of a package; an empty path where it is not installed."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        spec = None
    return Path(spec.origin).parent.joinpath(*inner) if spec is not None and spec.origin else Path("/nonexistent")
