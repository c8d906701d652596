"""`http:` a service that answers images with vectors: our own protocol, or those of usual embedding services."""

import hashlib
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import Destination, EncoderSource
from holdfast.core.outside import Outside, Wanted
from holdfast.core.source_spec import Options, take
from holdfast.sources.encoders.shared.connection import Address, above_zero, read_address
from holdfast.sources.encoders.shared.options import Common
from holdfast.sources.encoders.shared.protocols import Question, read_question
from holdfast.sources.encoders.shared.runtime import assemble_given, describe_wanted, read_wanted
from holdfast.sources.encoders.shared.service import Service


@dataclass(frozen=True)
class Http(EncoderSource):
    """A service behind HTTP that answers images with vectors."""

    about = "a service that answers images with vectors, no gradient: http://localhost:8000/embed?batch=16"
    differentiable = False
    scheme: ClassVar[str] = "http"

    def check(self, name: str, options: Options) -> None:
        """Look up the URL, the options, and the environment variable of the credential."""
        self._parse_options(name, options)

    def sends(self, name: str, options: Options) -> Destination:
        """Return the host."""
        price = take(options, "price", above_zero, None)
        address, _, _, batch, _ = self._parse_options(name, options)
        return Destination(address.host, batch, price)

    def open(self, name: str, options: Options) -> Encoder:
        """Open `http://HOST/PATH?batch=16`; what stands behind the "?" is for Holdfast, `query=` for the service.

        A call is a POST of a `.npy` array [N, C, H, W] of float32 in [0, 1], answered by {"vectors": [[...], ...]} or
        another `.npy` array; `body=json` sends {"images": ...} instead, `body=png` pictures in base64. `protocol=` is
        openai, jina, kserve, tensorflow or huggingface, `vectors=result.0.embedding` a path into an answer of another
        shape, `fields=model:clip` what else a question says. `batch=` is how many images a call holds at most,
        `timeout=`, `retries=` and `rate=` (calls per second) how it is called, `price=` what 1,000 images cost,
        `token_env=` the environment variable with the credential. `layout=`, `channels=`, `dtype=`, mean, std and how
        pictures become the input as for `call:`.

        Raises:
            HoldfastError: no URL, one with a credential in it, options that contradict each other, and whatever a
                service answers that is no vector for each image.
        """
        address, question, wanted, batch, common = self._parse_options(name, options)
        # What a service computes depends on these; how often it is asked, and by whom, does not matter
        facts = (str(address), address.query, question)
        identity = hashlib.sha256(repr((*facts, wanted)).encode()).digest()
        network = Outside(partial(Service, address, question, batch, identity), wanted, repr(facts).encode())
        origin = {
            "source": str(address),
            "protocol": f"{question.protocol}, images as {question.body}",
            **describe_wanted(wanted),
            "gradient": "none: it is a service",
        }
        return assemble_given(network, common, origin, options.spec, "a service")

    def _parse_options(self, name: str, options: Options) -> tuple[Address, Question, Wanted, int | None, Common]:
        address = read_address(self.scheme, name, options)
        # Of no matter for what it computes
        take(options, "price", above_zero, None)
        question, pictures = read_question(options)
        wanted, common = read_wanted(options)
        # A call holds so many images at most; nobody pays for those that would fill it up
        batch, wanted = wanted.batch, pictures or replace(wanted, batch=None)
        return address, question, wanted, batch, common
