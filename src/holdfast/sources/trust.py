"""Which specs run code that they name, or send images away: what to look at in a plan that somebody else wrote."""

from collections.abc import Iterable
from typing import Any

from holdfast.core import registry
from holdfast.core.source_spec import parse
from holdfast.runtime.errors import Missing
from holdfast.sources.encoders import destination_of


def executes(spec: str) -> str:
    """Return the code that an encoder or data spec runs beside that of installed packages, or who gets images by it.

    "" where it does neither.

    Everything else is read as data: safetensors, ONNX, arrays, pictures, tables, JSON. Weights of other formats are
    read without pickled code.
    """
    source, name, options = parse(spec)
    # A name may be a source of both kinds
    for kind in ("encoders", "data"):
        if source in registry.names(kind):
            part: Any = registry.find(kind, source)
            if code := part().runs(name, options):
                return code
    if source in registry.names("encoders") and (destination := destination_of(spec)):
        return f"it sends images to {destination.host}"
    return ""


def demand_trust(specs: Iterable[str], document: str) -> None:
    """Refuse specs of somebody else that run code, or send images away.

    Args:
        specs: the specs.
        document: where they stand, for the error.

    Raises:
        HoldfastError: one that does.
    """
    if running := [f"{spec} ({code})" for spec in dict.fromkeys(specs) if (code := executes(spec))]:
        raise Missing(
            f"{document} names code to be run here, or who is to get images: {', '.join(running)}; "
            "if you trust whoever wrote it, add --trust"
        )
