"""What text towers of all sources have in common."""

from holdfast.runtime.errors import BadValue


def too_long(spec: str, text: str, tokens: int) -> BadValue:
    """Return the error for a text of which a tower would read the beginning alone.

    Args:
        spec: the encoder.
        text: what is too long.
        tokens: how many the tower reads.
    """
    return BadValue(
        f"{spec}: expected texts of at most {tokens} tokens, got more: {text[:60]!r}; shorten the name or the template"
    )
