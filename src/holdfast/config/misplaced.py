"""A parameter of a measure, or of a part inside one, that somebody gave to the whole audit."""

from holdfast.config.overrides import defaults
from holdfast.core import registry
from holdfast.core.naming import flatten

_BALL = {"kind": "threats", "name": "linf", "radius": 0.05}
"""Some ball: only names of parameters are read."""


def explain_misplaced(key: str, value: object = ...) -> str:
    """Return how a parameter of measures is given in Python, such as `attack_steps=10`; "" for a key that is none."""
    if (found := _find(key)) is None:
        return ""
    measure, path = found
    said = value if isinstance(value, (int, float, str)) else "..."
    return (
        f"{path} is a parameter of measures: settings={{'*.{path}': {said!r}}} changes it in all of them, "
        f"measures='{measure}[{path}={said}]' in one{_or_of_all(path, 'eps=', 'norm=')}"
    )


def explain_misplaced_option(key: str, value: str = "") -> str:
    """Return how a parameter of measures is given on the command line; "" for a key that is none."""
    if (found := _find(key)) is None:
        return ""
    measure, path = found
    said = value or "..."
    return (
        f"{path} is a parameter of measures: --set '*.{path}={said}' changes it in all of them, "
        f"--measure '{measure}[{path}={said}]' in one{_or_of_all(path, '--eps ', '--norm ')}"
    )


def _find(key: str) -> tuple[str, str] | None:
    """Return a measure and the path of its parameter that a word means: all of a path, or the end of one alone."""
    # ours alone, those of the first page first: an example of a measure that people know
    word = key.replace("-", "_")
    ours = [name for name in registry.names("measures") if registry.home("measures", name)]
    # Those that answer first are the ones that people know
    for name in sorted(ours, key=lambda name: not getattr(registry.find_outline("measures", name), "in_brief", False)):
        # all of a path, or an end that only one path has
        spec = defaults("measures", name, _BALL)
        paths = dict.fromkeys([*spec, *flatten(spec)])
        whole = [path for path in paths if word in (path, path.replace(".", "_")) and path not in ("kind", "name")]
        # A word that ends several paths does not say which is meant
        ends = [path for path in paths if path.endswith(f".{word}")]
        if whole or len(ends) == 1:
            return name, (whole or ends)[0]
    return None


def _or_of_all(path: str, radius: str, norm: str) -> str:
    """Return what says the ball of everything at once."""
    return f"; {radius}... and {norm}... say the ball of all" if path.partition(".")[0] == "ball" else ""
