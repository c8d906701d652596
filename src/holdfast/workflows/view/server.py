"""Serving the viewer's pages on this machine: GET and HEAD alone, for browsers that name this machine."""

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from holdfast.runtime.errors import BadPlace, BadValue, HoldfastError, describe_error, os_reason
from holdfast.runtime.optional import optional
from holdfast.workflows.view.site import Page, Site

T = TypeVar("T")

TRIED = 20
"""Ports after the wanted one that are tried where it is in use."""

MODULES = ("applications", "middleware", "middleware.gzip", "middleware.trustedhost", "responses", "routing")
"""Of starlette."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def application(site: Site, hosts: list[str]) -> Any:
    """Return the pages of a site as an ASGI application."""
    starlette = {name: _package("starlette", f"starlette.{name}") for name in MODULES}
    response, route = starlette["responses"].Response, starlette["routing"].Route
    layer, trusted = starlette["middleware"].Middleware, starlette["middleware.trustedhost"].TrustedHostMiddleware

    async def answer(request: Any) -> Any:
        """Answer one request."""
        try:
            status, page = await _apart(lambda: _answer(site, request.path_params["address"]))
        except asyncio.CancelledError:  # Ctrl-C, while a page was being made
            status, page = 503, _plain("the viewer has ended")
        return response(page.content, status, {**HEADERS, "Content-Security-Policy": page.policy}, page.kind)

    return starlette["applications"].Starlette(
        routes=[route("/{address:path}", answer, methods=["GET", "HEAD"])],
        middleware=[
            layer(trusted, allowed_hosts=hosts, www_redirect=False),
            layer(starlette["middleware.gzip"].GZipMiddleware, minimum_size=2000, compresslevel=5),
        ],
    )


def _answer(site: Site, address: str) -> tuple[int, Page]:
    """Return the status of an answer, and what stands at an address, or why nothing does."""
    try:
        page = site.page(address)
    except HoldfastError as error:
        return 404, _plain(str(error))
    except Exception as error:
        return 500, _plain(f"a fault of Holdfast, not yours: {describe_error(error)}; please report it")
    return (404, _plain("there is no such page; the first one is /")) if page is None else (200, page)


def _plain(text: str) -> Page:
    return Page(f"{text}\n".encode(errors="replace"), "text/plain; charset=utf-8")


async def _apart(make: Callable[[], T]) -> T:
    """Return what is made in a thread of its own, which keeps nobody from ending."""
    loop = asyncio.get_running_loop()
    made: asyncio.Future[T] = loop.create_future()

    def put(value: T) -> None:
        if not made.done():
            made.set_result(value)

    def run() -> None:
        value = make()
        with contextlib.suppress(RuntimeError):  # the server has ended meanwhile
            loop.call_soon_threadsafe(put, value)

    threading.Thread(target=run, daemon=True).start()
    return await made


def _package(package: str, module: str) -> Any:
    try:
        return optional(module, package, "view", "holdfast view", guarded=False)
    except HoldfastError as error:
        raise error.retell(f"{error}, or add --out FOLDER, which needs no server") from error


def names_of(host: str) -> list[str]:
    """Return how browsers may call a machine that listens at an address."""
    names = ["localhost", "127.0.0.1", "[::1]", "::1", host]
    if not is_local(host):
        own = socket.gethostname()
        names += [own, socket.getfqdn(own)]
        with contextlib.suppress(OSError):  # a name that leads nowhere: then it is called by its address
            names += socket.gethostbyname_ex(own)[2]
    return list(dict.fromkeys(names))


def is_local(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError as error:
        raise BadValue(f"--host: expected an address of this machine such as 127.0.0.1, got {host!r}") from error


def bound(host: str, port: int, fixed: bool) -> socket.socket:
    """Return a socket that listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    last: OSError | None = None
    for candidate in [port] if fixed or not port else range(port, min(port + TRIED, 65536)):
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, candidate))
            listening.listen(128)
            return listening
        except OSError as error:
            listening.close()
            last = error
    reason = os_reason(last) if last else ""
    raise BadPlace(
        f"cannot listen on {host}:{port} ({reason}); add --port {port + TRIED if port < 60000 else 8000}, or --port 0 "
        "for any that is free"
    )


class Server:
    """Serves the pages of a folder of runs; once it is made, it listens.

    Args:
        root: the folder.
        host: address to listen at.
        port: see `bound`; None: 8000 or the next one that is free.

    Attributes:
        address: of the first page.

    Raises:
        HoldfastError: as `Site`, `application` and `bound`.
    """

    def __init__(self, root: Path, host: str, port: int | None):
        uvicorn = _package("uvicorn", "uvicorn")
        site = Site(root, live=True)
        app = application(site, names_of(host))
        self._socket = bound(host, 8000 if port is None else port, fixed=port is not None)
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self._socket.getsockname()[1]}/"
        options = {"access_log": False, "lifespan": "off", "server_header": False, "timeout_graceful_shutdown": 1}
        site.runs.read_ahead()
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="critical", **options))

    def run(self) -> None:
        """Answer until Ctrl-C."""
        with self._socket:
            self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """End, from another thread."""
        self._server.should_exit = True
