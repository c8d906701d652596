"""What leaves a machine: no credentials, and no place on it; for records, reports, logs and what is printed."""

import os
import re
import shlex
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

KEEP = "HOLDFAST_KEEP_PATHS"
"""Environment variable that keeps whole paths in records, where somebody needs them; credentials go all the same."""

_SECRETS = (
    (re.compile(r"(?<=://)[^/\s'\"@]+@"), "***@"),  # user:password@host
    # What is assigned to a name that says it is a secret, unless it is the name of an environment variable (token_env=)
    (
        re.compile(
            r"([?&;]|--|\b)([\w.-]*(?:token|secret|passw(?:or)?d|signature|"
            r"credential|api_?key|access_?key)[\w.-]*(?<!_env)=)"
            r"[^&\s'\"]+",
            re.IGNORECASE,
        ),
        r"\1\2***",
    ),
    (re.compile(r"(--address[= ])(?=\S*:)[^\s'\"]+"), r"\1***"),  # of a cluster
    (
        re.compile(
            r"\b(?:hf_\w{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|sk-[\w-]{20,}|"
            r"A(?:KIA|SIA)[0-9A-Z]{16}|AIza[\w-]{30,}|xox[abprs]-[\w-]{10,})"
        ),
        "***",
    ),
)
"""What is a credential, and what stands in its place."""

_STEP = r"[^\s/'\"<>|;,:?*&=()\[\]{}\\]+"
# A whole text that is one path, perhaps with a source before it and options behind it
_WHOLE = re.compile(r"((?:[A-Za-z][\w-]+:)?)/(?!/)(?:(?!: )[^\n?'])*?((?:(?!: )[^/\n?'])+)/?(\?.*)?")
# In quotes, where the quote ends it
_QUOTED = re.compile(r"(['\"])/(?!/)[^'\"\n]*?([^/'\"\n]+)/?\1")
_WORD = r"(?:(?!: )[^/\n?&'\"])+"
# As an option, or behind the name of a source
_OPTION = re.compile(rf"([?&]\w+=|\b[A-Za-z][\w-]+:)/(?!/)(?:{_WORD}/)*({_WORD})/?(?=[?&'\"]|: |$)")  # spaces and all
_SPACED = _STEP.replace("]+", ".]+")  # a file has an ending, and words that follow it are not of its folder
# In a sentence, where it begins neither inside a word nor behind another path
_INSIDE = re.compile(rf"(?<![\w.~…/<*)\]}}-])/(?!/)(?:(?:{_STEP}|{_SPACED}(?: {_SPACED}){{1,3}})/)*({_STEP})/?")
_WINDOWS = re.compile(rf"\b[A-Za-z]:[\\/](?:{_STEP}[\\/])*({_STEP})")


def redact_secrets(text: str) -> str:
    """Return text without passwords, keys and tokens: in URLs, in options, and by themselves."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def brief(text: str) -> str:
    """Return text after `redact_secrets` without the current folder, and with "~" for the home: paths that open."""
    text = redact_secrets(text).replace("file:///", "/")
    homes = ((os.path.expanduser("~"), "~"),)
    # The current folder first: what lies in it is relative, although it may lie in the home folder
    for folder, name in (*((folder, ".") for folder in _current()), *homes):
        if len(folder) > 1:  # "/" is in every path
            # Not from the middle of a longer path on
            start = rf"(?<![\w./~-]){re.escape(folder)}"
            text = re.sub(rf"{start}/(?=[^\s/])", "" if name == "." else f"{name}/", text)
            text = re.sub(rf"{start}(?![\w./-])", name, text)
    return text


def public(value: Any) -> Any:
    """Return JSON data, or a text, without credentials, and with the last name alone of places outside this folder.

    "/mnt/alice/photos" is "…/photos"; what lies in the current folder is relative to it, in the home folder to "~".
    What is public stays as it is, so it may be done twice. With `HOLDFAST_KEEP_PATHS` set, paths stay.
    """
    return _public(value, (*_current(), os.path.expanduser("~"), os.environ.get(KEEP, "")))


def public_command(words: Sequence[str]) -> str:
    """Return a command as it is typed, of which every word is `public` by itself.

    In the whole of it, a path may seem to go on behind a space, and would take options with it.

    Example:
        >>> public_command(["holdfast", "audit", "onnx:/mnt/alice/net.onnx", "--data", "/mnt/alice/my photos"])
        "holdfast audit onnx:…/net.onnx --data '…/my photos'"
    """
    return " ".join(public(shlex.quote(word)) for word in words)


def _public(value: Any, places: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {_public(key, places): _public(inner, places) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_public(inner, places) for inner in value]
    return _public_text(value, places) if isinstance(value, str) else value


@lru_cache(2**12)  # a record says the same words many times
def _public_text(text: str, places: tuple[str, ...]) -> str:
    """A public text; what it depends on besides the text, the `places` and the variable, is part of the key."""
    if os.environ.get(KEEP):
        return redact_secrets(text)
    # Until nothing changes, so that to do it twice changes nothing
    while (shorter := _shorten_paths(text)) != text:
        text = shorter
    return text


def _shorten_paths(text: str) -> str:
    text = brief(text)
    if match := _WHOLE.fullmatch(text):
        return f"{match[1]}…/{match[2]}{match[3] or ''}"
    # First what surely is a path, then what only looks like one in a sentence
    text = _QUOTED.sub(r"\1…/\2\1", _OPTION.sub(r"\1…/\2", text))
    return _WINDOWS.sub(r"…/\1", _INSIDE.sub(r"…/\1", text))


def distinct(paths: Sequence[str]) -> list[str]:
    """Return the `public` names of places, with as many folders above them as it takes to tell them apart."""
    names = [public(path) for path in paths]
    # With one folder more each time, for names that are still alike
    for depth in range(2, 1 + max((path.count("/") for path in paths), default=0)):
        twice = {name for name in names if names.count(name) > 1}
        longer = ["…/" + "/".join(redact_secrets(path).rstrip("/").split("/")[-depth:]) for path in paths]
        names = [longer[i] if name in twice else name for i, name in enumerate(names)]
    return names


def places(value: Any) -> dict[str, str]:
    """Return the texts in JSON data that `public` shortens, by what it makes of them; without credentials."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple)):
        return {key: text for inner in value for key, text in places(inner).items()}
    return {public(value): redact_secrets(value)} if isinstance(value, str) and public(value) != value else {}


def restore_paths(value: Any, originals: dict[str, str]) -> Any:
    """Return the data that `public` shortened, as far as `places` tell."""
    if isinstance(value, dict):
        return {restore_paths(key, originals): restore_paths(inner, originals) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [restore_paths(inner, originals) for inner in value]
    return originals.get(value, value) if isinstance(value, str) else value


def _current() -> list[str]:
    """Return the current folder, under the name that the shell has for it too."""
    try:
        return list(dict.fromkeys(filter(None, [os.getcwd(), os.environ.get("PWD", "")])))
    except OSError:  # it was deleted
        return []
