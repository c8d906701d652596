"""What the shell's Tab offers: encoders, data, parts, profiles; names are read from files, and no torch is imported."""

import os
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from holdfast.auditing.profile_files import profile_names
from holdfast.runtime.names import list_configured_models, list_registered_models, parse_names

CORRECTIONS = ("holm", "bh", "none")

_OF_DATA = ("--data", "--train", "--test")


def encoders(incomplete: str) -> list[str]:
    """Offer encoder specs, files that open as one, and plans; data where bash has lost that an option stands before."""
    before, typed, option = _in_bash(incomplete)
    if option in _OF_DATA and before:
        return _beginning(data_specs(), before, typed)
    specs = encoder_specs()
    prefixes = {spec.partition(":")[0] for spec in specs if spec.startswith(before + typed)}
    if not before and ":" not in typed and len(prefixes) > 1:  # first of which source; its names come then
        specs = [f"{prefix}:" for prefix in sorted(prefixes)]
    return [*_beginning(specs, before, typed), *_files(before + typed, (".safetensors", ".onnx", ".toml"))]


def data(incomplete: str) -> list[str]:
    """Offer data specs, folders and files of images."""
    before, typed, _ = _in_bash(incomplete)
    return [*_beginning(data_specs(), before, typed), *_files(before + typed, (".npz", ".npy", ".tar"))]


def profiles(incomplete: str) -> list[str]:
    """Offer profiles, and files of one's own."""
    return [*_beginning(profile_names(), "", incomplete), *_files(incomplete, (".toml",))]


def offer_words(*names: str) -> Callable[[str], list[str]]:
    """Return what offers these words."""
    return lambda incomplete: _beginning(names, "", incomplete)


def of_kind(*kinds: str) -> Callable[[str], list[str]]:
    """Return what offers the installed parts of some kinds."""
    return lambda incomplete: _beginning((name for kind in kinds for name in _parts(kind)), "", incomplete)


def offer_topics(incomplete: str) -> list[str]:
    """Offer what `holdfast show` explains: measures, checks, attacks and other parts, profiles, encoders."""
    from holdfast.core.registry import KINDS

    before, typed, _ = _in_bash(incomplete)
    known = {*profile_names(), "vectors", *(name for kind in KINDS for name in _parts(kind))}
    return [*_beginning(sorted(known), before, typed), *(encoders(incomplete) if typed or before else [])]


def encoder_specs() -> list[str]:
    """Return the encoders that are known by name, and the sources whose names are countless."""
    home = "holdfast.sources.encoders"
    trained = parse_names(f"{home}.zoo", "SHIPPED")
    models = {
        "openclip": list_configured_models("open_clip"),
        "timm": list_registered_models("timm"),
        "torchvision": list_registered_models("torchvision"),
        "zoo": (*trained, *parse_names(f"{home}.shared.networks", "NETWORKS")),
    }
    return [*(f"{source}:{name}" for source, names in models.items() for name in names), "hf:", "py:", "series:"]


def data_specs() -> list[str]:
    """Return the data sources, and the datasets of torchvision."""
    sources = [name if _is_bare(name) else f"{name}:" for name in _parts("data")]
    datasets = [f"torchvision:{name}" for name in parse_names("torchvision.datasets", "__all__")]
    return [*(source for source in sources if source != "torchvision:" or not datasets), *datasets]


def _is_bare(source: str) -> bool:
    """Whether the name of a data source alone is a spec; those of others are not imported for it."""
    from holdfast.core.registry import find_outline, home

    part: Any = None if home("data", source) is None else find_outline("data", source)
    return part is not None and part.bare


def _parts(kind: str) -> tuple[str, ...]:
    """Return the parts of a kind that are installed; files of one's own are not run for it."""
    from holdfast.core.registry import list_installed

    return list_installed(kind)


def _beginning(names: Iterable[str], before: str, typed: str) -> list[str]:
    """Return the names that begin with what was typed, without what bash takes for words before it."""
    return [name[len(before) :] for name in names if name.startswith(before + typed)]


def _files(typed: str, ends: tuple[str, ...]) -> list[str]:
    """Return files with such ends, and folders, whose path begins with what was typed."""
    if not typed:
        return []
    folder, _, start = typed.rpartition("/")
    try:
        entries = sorted(Path(folder or ("/" if typed.startswith("/") else ".")).iterdir())
    except OSError:
        return []
    head = typed[: len(typed) - len(start)]
    return [
        f"{head}{entry.name}{'/' if entry.is_dir() else ''}"
        for entry in entries
        if entry.name.startswith(start) and (entry.is_dir() or entry.suffix in ends)
    ]


def _in_bash(incomplete: str) -> tuple[str, str, str]:
    """Return (what stands before the word, the word, the option before both): bash ends words at each colon."""
    try:
        words = shlex.split(os.environ["COMP_WORDS"])[: int(os.environ["COMP_CWORD"]) + 1]
    except (KeyError, ValueError):  # another shell, or an open quotation mark
        return "", incomplete, ""
    if len(words) > 2 and words[-1] == ":":
        return f"{words[-2]}:", "", words[-3]
    if len(words) > 3 and words[-2] == ":":
        return f"{words[-3]}:", incomplete, words[-4]
    return "", incomplete, ""
