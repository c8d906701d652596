"""Services behind HTTP: what is sent, in which words, what is done where an answer is none."""

import base64
import io
import json
import runpy
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor

from holdfast.core import HoldfastError
from holdfast.runtime.errors import Failed
from holdfast.sources.encoders import check_encoder, open_encoder
from holdfast.sources.encoders.shared import connection as asking
from holdfast.sources.encoders.shared.protocols import PROTOCOLS, walk
from loopback import Asked, Loopback, Said, serve

ROOT = Path(__file__).parents[1]

W = np.random.default_rng(0).normal(size=(192, 6)).astype(np.float32)


def vectors(images: np.ndarray) -> list[Any]:
    # One by one: sums round otherwise in a batch of another size
    return [(image.reshape(-1).astype(np.float32) @ W).tolist() for image in images]


def answer(asked: Asked) -> Said:
    return Said({"vectors": vectors(asked.images)})


@pytest.fixture
def service() -> Iterator[Loopback]:
    with serve(answer) as service:
        yield service


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "FIRST", 0.001)


@pytest.fixture
def x() -> Tensor:
    return torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(1)).mul(255).round() / 255


def said(spec: str, x: Tensor) -> str:
    with pytest.raises(HoldfastError) as error:
        open_encoder(spec)(x)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_service_gives_what_it_computes(service: Loopback, x: Tensor) -> None:
    encoder = open_encoder(f"http://{service.host}/embed?batch=2&query=version%3D3%26dry%3Dno")
    assert not encoder.differentiable
    assert np.array_equal(encoder(x).numpy(), np.asarray(vectors(x.numpy()), np.float32))  # to the last bit
    assert [len(asked.images) for asked in service.asked] == [2, 2, 1]  # nothing fills a call up
    assert service.connections == 1
    assert service.asked[0].path == "/embed?version=3&dry=no"
    assert service.asked[0].images.dtype == np.float32
    assert encoder.origin["source"] == f"http://{service.host}/embed"
    assert str(encoder.origin["gradient"]).startswith("none")


def test_images_are_sent_as_they_are_wanted(service: Loopback, x: Tensor) -> None:
    open_encoder(f"http://{service.host}/?layout=nhwc&channels=bgr&dtype=uint8")(x)
    sent = service.asked[-1].images
    assert sent.dtype == np.uint8
    assert np.array_equal(sent, x.flip(1).permute(0, 2, 3, 1).mul(255).round().numpy().astype(np.uint8))
    open_encoder(f"http://{service.host}/?mean=0.5&std=0.25")(x)
    assert np.allclose(service.asked[-1].images, (x - 0.5) / 0.25)
    service.asked.clear()
    pictures = open_encoder(f"http://{service.host}/?resize=squash&size=8")
    assert pictures.geometry is not None
    assert {asked.images.shape[1:] for asked in service.asked} == {(3, 8, 8)}


def png(text: str) -> np.ndarray:
    return np.asarray(PIL.Image.open(io.BytesIO(base64.b64decode(text.removeprefix("data:image/png;base64,")))))


def of_json(body: Any) -> Said:
    return Said({"vectors": vectors(np.asarray(body["images"], np.float32))})


def of_pngs(body: Any) -> Said:
    return Said({"vectors": vectors(np.stack([png(one) for one in body["images"]]).transpose(0, 3, 1, 2))})


def of_openai(body: Any) -> Said:
    assert body["encoding_format"] == "float"
    assert body["model"] == "clip"
    assert body["dimensions"] == 6
    rows = vectors(np.stack([png(one) for one in body["input"]]).transpose(0, 3, 1, 2))
    data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    return Said({"object": "list", "data": data[::-1]})  # in any order


def of_jina(body: Any) -> Said:
    rows = vectors(np.stack([png(one["image"]) for one in body["input"]]).transpose(0, 3, 1, 2))
    return Said({"data": [{"index": i, "embedding": row} for i, row in enumerate(rows)]})


def of_kserve(body: Any) -> Said:
    (entry,) = body["inputs"]
    assert (entry["name"], entry["datatype"]) == ("x", "FP32")
    rows = vectors(np.asarray(entry["data"], np.float32).reshape(entry["shape"]))
    flat = [number for row in rows for number in row]
    other = {"name": "logits", "shape": [1], "datatype": "FP32", "data": [0.0]}
    assert body["outputs"] == [{"name": "y"}]
    return Said({"outputs": [other, {"name": "y", "shape": [len(rows), 6], "datatype": "FP32", "data": flat}]})


def of_tensorflow(body: Any) -> Said:
    return Said({"predictions": vectors(np.asarray(body["instances"], np.float32))})


def of_tensorflow_pngs(body: Any) -> Said:
    return Said(
        {"predictions": vectors(np.stack([png(one["b64"]) for one in body["instances"]]).transpose(0, 3, 1, 2))}
    )


def of_huggingface(body: Any) -> Said:
    inputs = body["inputs"] if isinstance(body["inputs"], list) else [body["inputs"]]
    rows = vectors(np.stack([png(one) for one in inputs]).transpose(0, 3, 1, 2))
    return Said([[row, row] for row in rows])  # two tokens


def of_own(body: Any) -> Said:
    rows = vectors(np.asarray(body["images"], np.float32))
    return Said({"result": [{"embedding": row} for row in rows]})


@pytest.mark.parametrize(
    ("options", "reply", "pixels"),
    [
        ("body=json", of_json, 1),
        ("body=png", of_pngs, 255),
        ("protocol=openai&fields=model:clip,dimensions:6", of_openai, 255),
        ("protocol=jina", of_jina, 255),
        ("protocol=kserve&input=x&output=y", of_kserve, 1),
        ("protocol=tensorflow", of_tensorflow, 1),
        ("protocol=tensorflow&body=png", of_tensorflow_pngs, 255),
        ("protocol=huggingface&vectors=*.0", of_huggingface, 255),
        ("protocol=huggingface&vectors=*.0&batch=1", of_huggingface, 255),
        ("body=json&vectors=result.*.embedding", of_own, 1),
    ],
)
def test_every_protocol(options: str, reply: Callable[[Any], Said], pixels: int, service: Loopback, x: Tensor) -> None:
    service.answer = lambda asked: reply(asked.json)
    got = open_encoder(f"http://{service.host}/v1?{options}")(x)
    expected = torch.tensor(vectors(x.mul(pixels).round().numpy() if pixels == 255 else x.numpy()))
    assert torch.allclose(got, expected, rtol=1e-5, atol=1e-4 * pixels)
    assert service.asked[0].headers["Content-Type"] == "application/json"


def test_every_protocol_is_tried() -> None:
    tried = {"holdfast", "openai", "jina", "kserve", "tensorflow", "huggingface"}
    assert set(PROTOCOLS) == tried


def test_answers_may_be_arrays(service: Loopback, x: Tensor) -> None:
    for dtype, version in ((np.float32, (1, 0)), (np.float64, (2, 0))):

        def reply(asked: Asked) -> Said:
            file = io.BytesIO()
            array = np.asfortranarray(np.asarray(vectors(asked.images), dtype))  # noqa: B023
            np.lib.format.write_array(file, array, version)  # noqa: B023
            return Said(file.getvalue(), kind="application/x-npy")

        service.answer = reply
        got = open_encoder(f"http://{service.host}/")(x)
        assert np.array_equal(got.numpy(), np.asarray(vectors(x.numpy()), np.float32))


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Said(b"gone", 500), "asked 3 times, it says 500 Internal Server Error ('gone')"),
        (Said(b"", 404), "it says 404 Not Found; look at the path"),
        (Said(b"", 401), "token_env=NAME"),
        (
            Said(b"<html>\n<b>hi</b></html>", kind="text/html"),
            "expected JSON, got text/html, '<html> <b>hi</b></html>'",
        ),
        (Said(b""), "expected JSON, got application/json, ''"),
        (Said(b"[" * 10**5), "expected JSON"),
        (Said({"vectors": [[1.0, 2.0]] * 4}), "expected one vector for each of 5 images, got [4, 2]"),
        (Said({"vectors": []}), "expected one vector for each of 5 images, got [0]"),
        (Said({"vectors": [[]] * 5}), "expected one vector for each of 5 images, got [5, 0]"),
        (Said({"vectors": [[1.0, float("nan")]] + [[1.0, 2.0]] * 4}), "got NaN or infinity for 1 of 5 images"),
        (Said({"vectors": [[1.0, 1e999]] * 5}), "got NaN or infinity for 5 of 5 images"),
        (Said({"vectors": [[1.0]] + [[1.0, 2.0]] * 4}), "all of one length"),
        (Said({"vectors": [["a"]] * 5}), "expected an array of real numbers"),
        (Said({"vectors": [[[1.0, 2.0]] * 2] * 5}), "of tokens the first is ?vectors=*.0"),
        (
            Said({"error": "no such model"}),
            "expected 'vectors' in its answer, got the keys error ('\"no such model\"')",
        ),
        (Said([1, 2]), "expected 'vectors' in its answer, got list of 2"),
        (Said(b"", 302, headers={"Location": "https://example.org/x"}), "it has moved to https://example.org/x"),
        (Said(b"\x93NUMPY nothing"), "expected a .npy array, got a damaged one"),
        (Said(npy(np.ones((10**3, 8)))[:-8]), "expected a .npy array, got a damaged one"),
        (Said(npy(np.array([{}] * 5, object))), "expected a .npy array, got a damaged one"),
        (Said(b"busy", 429, headers={"Retry-After": "86400"}), "wants to be asked in 86400 s"),
    ],
)
def test_what_is_no_answer_is_one_line(reply: Said, words: str, service: Loopback, x: Tensor) -> None:
    service.answer = lambda asked: reply
    line = said(f"http://{service.host}/embed?retries=2", x)
    assert line.startswith(f"http://{service.host}/embed: ")
    assert words in line


def test_an_answer_is_no_larger_than_it_may_be(service: Loopback, x: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MOST", 2**10)
    service.answer = lambda asked: Said(b"[" + b" " * 2**12)
    assert "more than 1,024 bytes" in said(f"http://{service.host}/", x)


def test_what_fails_for_the_time_being_is_asked_again(service: Loopback, x: Tensor) -> None:
    first = [Said(b"", 500), Said(b"", 429, headers={"Retry-After": "0"}), Said(b"", 503)]
    service.answer = lambda asked: first.pop(0) if first else answer(asked)
    encoder = open_encoder(f"http://{service.host}/")
    assert len(encoder(x)) == 5
    assert len(service.asked) == 4
    # one that is down is not waited for again and again, until it answers
    service.asked.clear()
    service.answer = lambda asked: Said(b"", 500)
    for calls in (6, 7):
        with pytest.raises(Failed):
            encoder(x)
        assert len(service.asked) == calls
    service.answer = answer
    assert len(encoder(x)) == 5


@pytest.mark.parametrize("date", [False, True])
def test_a_service_is_waited_for_as_long_as_it_says(date: bool, service: Loopback, x: Tensor) -> None:
    waits = formatdate(time.time() + 1.99, usegmt=True) if date else "1"
    first = [Said(b"", 429, headers={"Retry-After": waits})]
    service.answer = lambda asked: first.pop(0) if first else answer(asked)
    began = time.monotonic()
    open_encoder(f"http://{service.host}/")(x)
    assert 0.5 < time.monotonic() - began < 5


def test_a_slow_service_is_not_waited_for(service: Loopback, x: Tensor) -> None:
    held = threading.Event()
    service.answer = lambda asked: (held.wait(5), answer(asked))[1]
    began = time.monotonic()
    assert "asked 2 times, no answer within its time" in said(f"http://{service.host}/?timeout=0.1&retries=1", x)
    held.set()
    assert time.monotonic() - began < 3


def test_calls_keep_their_rate(service: Loopback, x: Tensor) -> None:
    began = time.monotonic()
    open_encoder(f"http://{service.host}/?batch=1&rate=20")(x)
    assert time.monotonic() - began > 4 / 20


def test_where_nobody_answers(service: Loopback, x: Tensor) -> None:
    host = service.host
    encoder = open_encoder(f"http://{host}/?retries=1")
    encoder(x)
    with serve(answer) as other:
        gone = other.host
    began = time.monotonic()
    assert "nobody answers there" in said(f"http://{gone}/", x)
    assert time.monotonic() - began < 2


def test_vectors_stay_as_long_as_they_were(service: Loopback, x: Tensor) -> None:
    encoder = open_encoder(f"http://{service.host}/")
    encoder(x)
    service.answer = lambda asked: Said({"vectors": [[1.0, 2.0]] * len(asked.images)})
    with pytest.raises(Failed) as error:
        encoder(x)
    assert "had 6 numbers, and now have 2" in str(error.value)


def test_a_certificate_that_nobody_signed_is_refused(tmp_path: Path, x: Tensor) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
         "-keyout", str(key), "-out", str(certificate)], capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("needs openssl")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    from http.server import BaseHTTPRequestHandler

    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.handle_error = lambda *_: None  # pyright: ignore[reportAttributeAccessIssue]
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        line = said(f"https://localhost:{server.server_port}/", x)
        assert "no encrypted connection" in line
        assert "certificate" in line
    finally:
        server.shutdown()
        server.server_close()


def test_credentials_come_from_the_environment(service: Loopback, x: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBED_KEY", "very-secret")
    spec = f"http://{service.host}/?token_env=EMBED_KEY"
    encoder = open_encoder(spec)
    encoder(x)
    assert service.asked[-1].headers["Authorization"] == "Bearer very-secret"
    assert "secret" not in json.dumps(dict(encoder.origin))
    open_encoder(f"{spec}&token_header=X-Api-Key")(x)
    assert service.asked[-1].headers["X-Api-Key"] == "very-secret"
    service.answer = lambda asked: Said(asked.headers["Authorization"].encode(), 403)
    monkeypatch.setenv("EMBED_KEY", "hf_abcdefghijklmnopqrst")
    assert "hf_abc" not in said(spec, x)
    monkeypatch.setenv("EMBED_KEY", "two\nlines")
    assert "lines" not in said(spec, x)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("http:localhost/x", "expected http://HOST"),
        ("http://", "expected http://HOST"),
        ("http://a:b/x", "expected http://HOST"),
        ("http://a:99999/x", "expected http://HOST"),
        ("http://a/with space", "expected http://HOST"),
        ("http://a/ä", "expected http://HOST"),
        ("https://me:pass-word@host/x", "no user and password"),
        ("http://host/x?query=api_key%3Dpass-word", "query= holds a credential"),
        ("https://host/x?query=v%3D2%26code%3Dpass-word", "query= holds a credential"),
        ("http://host/x?token_env=NOT_SET_HERE", "NOT_SET_HERE is not set"),
        ("http://host/x?token_env=pass-word", "it is not set"),
        ("http://host/x?token_header=A:b", "expected the name of a header"),
        ("http://host/x?protocol=grpc", "expected one of holdfast, openai"),
        ("http://host/x?protocol=openai&body=npy", "expected one of png"),
        ("http://host/x?protocol=kserve", "needs ?input="),
        ("http://host/x?input=x", "are names of protocol=kserve"),
        ("http://host/x?body=png&mean=0&std=1", "leave out mean, std"),
        ("http://host/x?fields=model", "expected name:value"),
        ("http://host/x?timeout=0", "expected a number above 0"),
        ("http://host/x?retries=-1", "from 0 to 100"),
        ("http://host/x?modle=a", "this source takes"),
        ("http://host/x?size=8", "a service says nothing of pictures"),
    ],
)
def test_what_is_no_service_is_refused_unasked(spec: str, words: str) -> None:
    with pytest.raises(HoldfastError) as error:
        (open_encoder if "size=" in spec else check_encoder)(spec)
    assert words in str(error.value)
    assert "pass-word" not in str(error.value)


def test_paths_into_answers() -> None:
    assert walk({"a": [{"b": [1]}]}, "a.0.b") == [1]
    assert walk([[[1], [2]], [[3], [4]]], "*.1") == [[2], [4]]
    for answer, path in (({"data": [{"index": 0}, {"index": 0}]}, "data.*"), ([1], "1"), (3, "*"), ({"a": 1}, "a.b")):
        with pytest.raises(Failed):
            walk(answer, path)


def test_what_decides_the_vectors_tells_services_apart(service: Loopback) -> None:
    base = f"http://{service.host}/a"
    same = [base, f"{base}?timeout=3&retries=1&rate=9&batch=3"]
    others = [f"{base}b", f"{base}?query=v%3D2", f"{base}?body=json", f"{base}?dtype=uint8", f"{base}?fields=model:b"]
    assert len({open_encoder(spec).fingerprint for spec in same}) == 1
    assert len({open_encoder(spec).fingerprint for spec in same + others}) == 1 + len(others)


def test_the_example_answers_as_its_encoder_does() -> None:
    example = runpy.run_path(str(ROOT / "examples" / "embedding_server.py"))
    example["Embed"].log_message = lambda *_: None
    server = ThreadingHTTPServer(("127.0.0.1", 0), example["Embed"])
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    x = torch.rand(4, 1, 8, 8)
    with torch.no_grad():
        expected = open_encoder("zoo:digits-simclr")(x)
    try:
        assert torch.equal(open_encoder(f"http://127.0.0.1:{server.server_port}/embed")(x), expected)
    finally:
        server.shutdown()
        server.server_close()
