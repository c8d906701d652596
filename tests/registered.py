"""Parts of one's own, which tests register and others must not meet."""

from holdfast.core import registry


def forget() -> None:
    """Forget the parts that this process has registered, and the files that it has run for them."""
    for own_parts in registry._here.values():
        own_parts.clear()
    registry._files.clear()
    registry.forget()
