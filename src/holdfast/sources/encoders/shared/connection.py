"""A service behind HTTP: asked patiently, no faster than it may be, with a credential of the environment."""

import http.client
import os
import re
import socket
import ssl
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import quote, unquote, urlsplit

from holdfast.core.source_spec import Options, take
from holdfast.runtime.checked import integer, number
from holdfast.runtime.errors import BadValue, Failed, Missing, first_line, os_reason
from holdfast.runtime.privacy import redact_secrets
from holdfast.runtime.version import VERSION
from holdfast.storage.answers import count_call

MOST = 2**28
"""Bytes of an answer, at most."""

AGAIN = frozenset((408, 425, 429, 500, 502, 503, 504))
"""Statuses after which the same question may be answered."""

FIRST, LONGEST, PATIENCE = 0.5, 30.0, 600.0
"""Seconds before the first further attempt, which double each time up to the second; and what a service may ask for."""

WAIT, PLACE = "Retry-After", "Location"
"""Headers of an answer."""

BEARER = "Authorization"
"""The header of a credential, where nobody names another one."""

_KEY = re.compile(r"(^|[&;_-])(key|code|sig|auth|pwd?|pass)=", re.IGNORECASE)
"""What credentials in the query of a URL are called, beside words that are never shown."""

_VARIABLE = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Address:
    """Where a service is, and how it is asked.

    Attributes:
        scheme: http or https.
        host: its name, with the port where the URL has one.
        path: of the URL.
        query: of the service's own, behind the path; "" for none.
        timeout: seconds in which an answer must be there.
        retries: how often a question is asked again that failed for the time being.
        rate: questions per second, at most; None: any number.
        token_env: environment variable that holds the credential.
        token_header: header in which it is sent.
    """

    scheme: str
    host: str
    path: str
    query: str = ""
    timeout: float = 60.0
    retries: int = 5
    rate: float | None = None
    token_env: str | None = None
    token_header: str = BEARER

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}{self.path}"

    @property
    def target(self) -> str:
        """What is asked for on the host."""
        target = quote(self.path, safe="/:@!$&'()*+,;=~%-._")
        return f"{target}?{self.query}" if self.query else target


def read_address(scheme: str, name: str, options: Options) -> Address:
    """Take from a spec where a service is and how it is asked.

    Args:
        scheme: http or https.
        name: `//host/path`.
        options: of the spec.

    Raises:
        HoldfastError: no URL, a credential in it, a variable of the environment that is not set.
    """
    # What is refused here may hold a password, which no error repeats
    spec = redact_secrets(unquote(options.spec))
    try:
        parts = urlsplit(f"{scheme}:{name}")
        usable = bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port that is none
        raise BadValue(f"{spec}: expected {scheme}://HOST:PORT/PATH, with a port from 1 to 65535") from None
    if "@" in parts.netloc:
        raise BadValue(
            f"{spec}: a URL holds no user and password here, for specs stand in records; put the credential into an "
            "environment variable and give ?token_env=ITS_NAME"
        )
    if not usable or not name.isascii() or not name.isprintable() or " " in name or "#" in name:
        raise BadValue(
            f"{spec}: expected {scheme}://HOST/PATH of printable ASCII, such as {scheme}://localhost:8000/embed"
        )
    # The service's own query, which would else be taken for options of ours
    query = take(options, "query", str, "")
    if redact_secrets(query) != query or _KEY.search(query):
        raise BadValue(
            f"{scheme}:{name}: query= holds a credential, and specs stand in records; give ?token_env=NAME instead"
        )
    address = Address(
        scheme,
        parts.netloc,
        parts.path or "/",
        quote(query, safe="=&;/:,+-._~%"),
        timeout=take(options, "timeout", above_zero, 60.0),
        retries=take(options, "retries", _few, 5),
        rate=take(options, "rate", above_zero, None),
        token_env=take(options, "token_env", str, None),
        token_header=take(options, "token_header", _header, BEARER),
    )
    # Before any image is read: a variable that is not set should cost nothing
    _credential(address)
    return address


def above_zero(text: str) -> float:
    """Convert a number above 0; for `take`."""
    if not 0 < (value := number(text)) < 1e6:
        raise ValueError("expected a number above 0")
    return value


def _few(text: str) -> int:
    if not 0 <= (value := integer(text)) <= 100:
        raise ValueError("expected a whole number from 0 to 100")
    return value


def _header(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", text):
        raise ValueError("expected the name of a header, such as X-Api-Key")
    return text


def _credential(address: Address) -> dict[str, str]:
    """Return the header that holds the credential; its value stands in no error."""
    name = address.token_env
    if name is None:
        return {}
    # What is no name of a variable may be the credential itself, pasted
    value = os.environ.get(name, "").strip() if _VARIABLE.fullmatch(name) else ""
    if not value:
        shown = f" {name}" if re.fullmatch("[A-Z_][A-Z0-9_]*", name) else ""
        raise Missing(f"{address}: token_env= names an environment variable, and{shown or ' it'} is not set; export it")
    # A line feed would begin another header, and http.client shows the value that it refuses
    if not value.isascii() or not value.isprintable():
        raise BadValue(f"{address}: expected printable ASCII in the environment variable {name}")
    return {address.token_header: f"Bearer {value}" if address.token_header == BEARER else value}


@dataclass(frozen=True)
class Reply:
    """What a service said.

    Attributes:
        status: 200 where it answered.
        kind: the type of its content, such as "application/json".
        body: the content.
        wait: seconds after which it wants to be asked again, where it says so.
        moved: where it says that it is now.
    """

    status: int
    kind: str
    body: bytes
    wait: float | None = None
    moved: str = ""

    @property
    def beginning(self) -> str:
        """The first words of the content, printable."""
        # Pages of errors may show the credential that was sent
        text = " ".join(self.body[:400].decode("utf-8", "replace").split())
        return redact_secrets("".join(c for c in text if c.isprintable()))[:100]

    @property
    def in_words(self) -> str:
        """The status, and the first words."""
        name = HTTPStatus(self.status).phrase if self.status in set(HTTPStatus) else ""
        return f"{self.status} {name}".strip() + (f" ({self.beginning!r})" if self.body else "")


@dataclass
class Client:
    """Asks a service over one connection, which stays open between questions.

    Args:
        address: of the service.
    """

    address: Address
    _connection: http.client.HTTPConnection | None = field(default=None, init=False)
    _last: float = field(default=float("-inf"), init=False)
    _answered: bool = field(default=False, init=False)
    _down: bool = field(default=False, init=False)

    def post(self, body: bytes, kind: str, accept: str) -> Reply:
        """Return the answer to a question, which is asked again where it failed for the time being.

        Args:
            body: the question.
            kind: its type of content.
            accept: types of content that can be read.

        Raises:
            HoldfastError: no answer, after all attempts.
        """
        headers = {"Content-Type": kind, "Accept": accept, "User-Agent": f"holdfast/{VERSION}"}
        # Read for each question, for it may be renewed meanwhile; never kept, as objects are shown and sent
        headers |= _credential(self.address)
        wait, attempt = FIRST, 0
        while True:
            asked, reused, attempt = None, self._connection is not None, attempt + 1
            try:
                reply = self._ask(body, headers)
            except ssl.SSLError as error:
                # A certificate that is refused now will be in a second
                raise Failed(f"{self.address}: no encrypted connection: {first_line(error)}") from error
            except (OSError, http.client.HTTPException) as error:
                self._close()
                # A connection that was idle may have been closed by the other side, which says nothing of this question
                if reused and not isinstance(error, TimeoutError):
                    attempt -= 1
                    continue
                problem = "no answer within its time" if isinstance(error, TimeoutError) else _reason(error)
                # Where nobody ever answered, the URL is wrong, rather than the service busy
                if not self._answered and isinstance(error, (ConnectionRefusedError, socket.gaierror)):
                    raise Failed(
                        f"{self.address}: nobody answers there ({problem}); start it, or mend the URL"
                    ) from error
            else:
                self._answered = True
                if reply.status == HTTPStatus.OK:
                    self._down = False
                    return reply
                problem, asked = f"it says {reply.in_words}", reply.wait
                if reply.status not in AGAIN:
                    raise self._refuse(reply)
            # One that has been given up is asked once, until it answers again
            if attempt > (0 if self._down else self.address.retries):
                self._down = True
                times = "once" if attempt == 1 else f"{attempt} times"
                raise Failed(
                    f"{self.address}: asked {times}, {problem}; when it answers again, the same command goes on "
                    "from what is stored"
                )
            # Nobody would know what is waited for
            if asked is not None and asked > PATIENCE:
                raise Failed(
                    f"{self.address}: {problem}, and wants to be asked in {asked:.0f} s; run the same command then"
                )
            time.sleep(wait if asked is None else asked)
            wait = min(2 * wait, LONGEST)

    def _ask(self, body: bytes, headers: dict[str, str]) -> Reply:
        """Ask once."""
        if self.address.rate is not None:
            time.sleep(max(0.0, self._last + 1 / self.address.rate - time.monotonic()))
        self._last = time.monotonic()
        end = self._last + self.address.timeout
        # Counted before it is made: whatever becomes of it, it may be on the bill
        count_call(str(self.address))
        connection = self._connection or self._open()
        connection.request("POST", self.address.target, body, headers)
        # Services that write head and content apart would wait 40 ms for each to be acknowledged
        if (quick := getattr(socket, "TCP_QUICKACK", None)) is not None:
            connection.sock.setsockopt(socket.IPPROTO_TCP, quick, 1)
        response = connection.getresponse()
        said, size, pieces = response.headers, 0, list[bytes]()
        # As pieces come, so that an answer without end is noticed
        while piece := response.read1(2**20):
            pieces.append(piece)
            if (size := size + len(piece)) > MOST:
                self._close()
                raise Failed(f"{self.address}: its answer has more than {MOST:,} bytes; expected vectors alone")
            # Each piece may come in time, and all of them never
            if time.monotonic() > end:
                raise TimeoutError
        response.close()  # what was read in pieces leaves it open, and its connection of no use
        kind = said.get_content_type()
        return Reply(response.status, kind, b"".join(pieces), _wait(said.get(WAIT)), said.get(PLACE) or "")

    def _open(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self.address.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(self.address.host, timeout=self.address.timeout)
        return self._connection

    def __del__(self) -> None:
        self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _refuse(self, reply: Reply) -> Failed:
        """Return the error for a question that was refused for good."""
        if 300 <= reply.status < 400:
            # Images, and a credential, go where the spec says, and nowhere else
            place = redact_secrets("".join(c for c in reply.moved if c.isprintable()))[:200]
            return Failed(
                f"{self.address}: it has moved to {place or 'an unknown place'}; give that URL, if you trust it"
            )
        advice = ""
        if reply.status in (401, 403):
            advice = "; ?token_env=NAME names the environment variable that holds the credential"
        elif reply.status == HTTPStatus.NOT_FOUND:
            advice = "; look at the path of the URL"
        return Failed(f"{self.address}: it says {reply.in_words}{advice}")


def _reason(error: Exception) -> str:
    return os_reason(error) if isinstance(error, OSError) else f"{type(error).__name__}: {first_line(error)}"


def _wait(said: str | None) -> float | None:
    """Return the seconds that `Retry-After` asks for: a number of them, or a date."""
    if said is None:
        return None
    if said.strip().isdigit():
        return float(said[:9])
    try:
        return max(0.0, (parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):  # no date, or one without a zone
        return None
