"""`https:` a service as for `http:`, over an encrypted connection whose certificate is checked."""

from dataclasses import dataclass
from typing import ClassVar

from holdfast.sources.encoders.http import Http


@dataclass(frozen=True)
class Https(Http):
    """A service behind HTTP that answers images with vectors, over an encrypted connection."""

    about = "the same over an encrypted connection: https://example.org/v1/embeddings?protocol=openai&token_env=API_KEY"
    scheme: ClassVar[str] = "https"
