"""A service on this machine that answers as a test says, and remembers what it was asked."""

import io
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np


@dataclass
class Asked:
    """A question."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def images(self) -> np.ndarray:
        """The array that was sent."""
        return np.load(io.BytesIO(self.body))

    @property
    def json(self) -> Any:
        """What was sent as JSON."""
        return json.loads(self.body)


@dataclass
class Said:
    """An answer."""

    body: bytes | list[Any] | dict[str, Any]
    status: int = 200
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Loopback:
    """The service; `answer` may be replaced at any time."""

    host: str
    answer: Callable[[Asked], Said]
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0

    @property
    def sent(self) -> int:
        """How many images were sent, as arrays."""
        return sum(len(asked.images) for asked in self.asked)


@contextmanager
def serve(answer: Callable[[Asked], Said]) -> Iterator[Loopback]:
    """Serve inside."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            service.connections += 1

        def do_POST(self) -> None:
            asked = Asked(self.path, dict(self.headers), self.rfile.read(int(self.headers["Content-Length"])))
            service.asked.append(asked)
            said = service.answer(asked)
            body = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
            self.send_response(said.status)
            for name, value in {"Content-Type": said.kind, "Content-Length": str(len(body)), **said.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service = Loopback(f"127.0.0.1:{server.server_port}", answer)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
