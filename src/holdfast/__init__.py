"""Holdfast: how well do an image encoder's representations hold when the image is disturbed?

    import holdfast
    record = holdfast.audit(model, images, mean=0.5, std=0.25)
    print(record)

`audit`, `compare`, `open` and `harden` are all there is to begin with; the command line is `holdfast`. What they are
made of is in `holdfast.core` (the nouns), `holdfast.encoders.open_encoder`, `holdfast.data.open_images`,
`holdfast.audit.plan_file.make_plan` and `holdfast.audit.run.run_audit`.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.api import audit as audit
    from holdfast.api import compare as compare
    from holdfast.api import open as open
    from holdfast.errors import HoldfastError as HoldfastError
    from holdfast.hardened import harden as harden
    from holdfast.results import Comparison as Comparison
    from holdfast.results import Record as Record

    __version__: str

_FROM = {
    "compare": "holdfast.api", "open": "holdfast.api", "HoldfastError": "holdfast.errors",
    "Record": "holdfast.results", "Comparison": "holdfast.results",
}  # fmt: skip
"""Name -> the module that holds it, imported when the name is first used: `import holdfast` brings no torch."""


def __getattr__(name: str) -> Any:
    """Return what is imported, or looked up, when it is first asked for."""
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("holdfast")
    elif name in _FROM:
        value = getattr(import_module(_FROM[name]), name)
    else:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the names that completion offers first."""
    return sorted({*globals(), *_FROM, "__version__"})


_CALLED = {"holdfast.audit": "holdfast.api", "holdfast.harden": "holdfast.hardened"}
"""Package that is called like the function of its name -> the module that holds the function."""


class _Called(ModuleType):
    """A package that is called as the function of the same name."""

    @property
    def _function(self) -> Any:
        return getattr(import_module(_CALLED[self.__name__]), self.__name__.rpartition(".")[2])

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the function; see `holdfast.api.audit` and `holdfast.hardened.harden`."""
        return self._function(*args, **options)

    @property
    def __signature__(self) -> Any:
        """The function's signature, for help and completion."""
        from inspect import signature

        return signature(self._function)


# The packages that hold the parts are called `holdfast.audit` as well: whichever is imported first, both work.
for _name in _CALLED:
    import_module(_name).__class__ = _Called
