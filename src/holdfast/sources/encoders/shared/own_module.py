"""What a spec names in a Python module of the user's own."""

import importlib
import sys
from pathlib import Path
from typing import Any

from holdfast.runtime.errors import BadValue, unknown
from holdfast.runtime.foreign import foreign


def look_up(spec: str, name: str, form: str) -> Any:
    """Return what a module holds under a name; the module is imported, also from the current folder.

    Args:
        spec: the whole spec string, for errors.
        name: `package.module:name`.
        form: how the spec is written, such as "py:package.module:factory", for errors.

    Raises:
        HoldfastError: no ":name", a module that cannot be imported, a name that it lacks.
    """
    module_name, _, attribute = name.partition(":")
    if not attribute:
        raise BadValue(f"{spec}: expected {form}, got no ':{form.rpartition(':')[2]}'")
    # As `python -m` does, so that a module beside the spec is found
    if str(Path.cwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    # code of the user, run once: what it raises is said to be its
    with foreign(f"{spec}: the module {module_name!r}", "imported", wrap=True):
        module = importlib.import_module(module_name)
    if not hasattr(module, attribute):
        raise unknown(f"name in {module_name}", attribute, [key for key in vars(module) if not key.startswith("_")])
    return getattr(module, attribute)
