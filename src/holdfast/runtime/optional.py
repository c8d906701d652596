"""Importing optional packages: quietly, behind the torchvision guard, with advice where one is absent."""

import importlib
import warnings
from importlib.util import find_spec
from typing import Any

from holdfast.runtime.errors import Failed, first_line, missing
from holdfast.runtime.torchvision_guard import guard_torchvision


def optional(module: str, package: str, extra: str, feature: str, *, guarded: bool = True) -> Any:
    """Import an optional package, for example `optional("timm", "timm", "timm", "timm:resnet18")`."""
    # Absent is another matter than broken, which the import would not tell apart
    if find_spec(module.partition(".")[0]) is None:
        raise missing(package, extra, feature)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations inside the package are not ours to show
            if guarded:
                guard_torchvision()
            return importlib.import_module(module)
    except Exception as error:
        raise Failed(
            f"{feature}: package {package!r} does not import ({first_line(error)}); see holdfast doctor"
        ) from error
