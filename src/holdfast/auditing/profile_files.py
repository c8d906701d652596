"""The files of Holdfast's own profiles, and what they say of themselves: read without any part."""

from pathlib import Path

from holdfast.storage.documents import read_toml

FOLDER = Path(__file__).with_name("profiles")
"""Holdfast's own profiles."""

FIRST = ("quick", "standard")
"""Profiles that people begin with."""


def profile_names() -> list[str]:
    """Return the names of Holdfast's own profiles, those that people begin with first."""
    return sorted((path.stem for path in FOLDER.glob("*.toml")), key=lambda name: (name not in FIRST, name))


def descriptions() -> dict[str, str]:
    """Return a line for each of Holdfast's own profiles."""
    return {name: read_toml(FOLDER / f"{name}.toml", "profile")["description"] for name in profile_names()}
