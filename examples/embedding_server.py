"""A service that answers images with vectors, as `http:` asks it: put your own encoder in the place of the small one.

python examples/embedding_server.py &
holdfast audit http://localhost:8000/embed --data digits
"""

import argparse
import io
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import torch

from holdfast.sources.encoders import open_encoder

encoder = open_encoder("zoo:digits-simclr")


class Embed(BaseHTTPRequestHandler):
    """Answers a `.npy` array of images, [N, C, H, W] from 0 to 1, with {"vectors": [[...], ...]}."""

    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True  # one connection for all calls, which never waits

    def do_POST(self) -> None:
        """Answer a call."""
        images = np.load(io.BytesIO(self.rfile.read(int(self.headers["Content-Length"]))))
        with torch.no_grad():
            answer = json.dumps({"vectors": encoder(torch.from_numpy(images)).tolist()}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def main(words: list[str] | None = None) -> None:
    """Serve until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000, help="where it listens, on this machine alone")
    ThreadingHTTPServer(("localhost", parser.parse_args(words).port), Embed).serve_forever()


if __name__ == "__main__":
    main()
