"""TOML and JSON that people write, read in one place: a file that is damaged, too deep or too long is one line."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from holdfast.runtime.doors import SMALL, read_text
from holdfast.runtime.errors import BadData, Missing, os_reason
from holdfast.runtime.guess import path_meant

DEPTH = 64
"""How deep tables and lists may lie in each other; records need 12."""


class TooDeep(ValueError):
    """Tables or lists in each other beyond `DEPTH`."""

    def __init__(self) -> None:
        super().__init__(f"tables and lists are nested more than {DEPTH} deep")


def parse_json(text: str | bytes) -> Any:
    """Return JSON data."""
    try:
        return _shallow(json.loads(text))
    except RecursionError:
        raise TooDeep from None


def read_toml(path: Path, kind: str) -> dict[str, Any]:
    """Return the tables of a TOML file."""
    try:
        return _shallow(tomllib.loads(read_text(path, SMALL)))
    except FileNotFoundError as error:
        raise Missing(f"no {kind} {str(path)!r}; {path_meant(path, 'give a TOML file')}") from error
    except OSError as error:
        raise BadData(f"cannot read the {kind} {str(path)!r}: {os_reason(error)}; give a TOML file") from error
    except RecursionError:
        raise BadData(f"the {kind} {str(path)!r} is not usable: {TooDeep()}; write it flatter") from None
    except TooDeep as error:
        raise BadData(f"the {kind} {str(path)!r} is not usable: {error}; write it flatter") from None
    except ValueError as error:
        raise BadData(f"the {kind} {str(path)!r} is not TOML: {error}") from error


def _shallow(data: Any) -> Any:
    """Return data as they are, unless they are nested beyond `DEPTH`."""
    level = [data]
    for _ in range(DEPTH):
        inner = [value for value in level if isinstance(value, (dict, list))]
        level = [item for value in inner for item in (value.values() if isinstance(value, dict) else value)]
        if not level:
            return data
    raise TooDeep


def quote_yaml(text: str) -> str:
    """Return text as a double-quoted scalar of YAML: JSON's, with what YAML does not print escaped as well."""
    return re.sub(
        "[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]",
        lambda m: f"\\u{ord(m[0]):04x}",
        json.dumps(text, ensure_ascii=False),
    )
