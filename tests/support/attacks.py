"""Attacks on the server of the local page, over raw sockets, and what must hold of every answer."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import socket
import struct
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from urllib.parse import urlsplit

__all__ = ["HOSTILE_FILES", "Attack", "Outcome", "all_attacks", "perform", "problems"]

_CHUNK = 1 << 16

#: What a client does: sends bytes, waits for seconds, or one of the words below.
Step = bytes | float | str
#: Ends sending, or resets the connection.
_SHUT, _RESET = "shut", "reset"


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One connection of a hostile client.

    Attributes:
        kind: The family of attacks.
        steps: What the client does before it reads.
        statuses: The statuses that an answer may have; 0 for a connection that is closed without one.
    """

    kind: str
    steps: tuple[Step, ...]
    statuses: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of an attack.

    Attributes:
        received: Everything that the server sent.
        took_s: Time from connecting until the end.
        has_ended: False if the server neither answered nor closed the connection until the client gave up.
    """

    received: bytes
    took_s: float
    has_ended: bool


def _split(texts: str) -> list[str]:
    return texts.split("|")


def _split_bytes(texts: bytes) -> list[bytes]:
    return texts.split(b"|")


#: Request lines.
_LINES = _split_bytes(
    b"GET|GET |GET  |GET /|GET / HTTP|GET / HTTP/|GET / HTTP/1|GET / HTTP/1.|GET / HTTP/11|"
    b"GET / HTTP/1.1.1|GET / HTTP/-1.1|GET / HTTP/a.b|GET / http/1.1|GET / HTTPS/1.1|GET  / HTTP/1.1|"
    b"GET / HTTP/1.1 |GET\t/\tHTTP/1.1| GET / HTTP/1.1|GET / x HTTP/1.1|GET /\x00 HTTP/1.1|"
    b"GET /\xff HTTP/1.1|G\x00ET / HTTP/1.1|GET /\x0b HTTP/1.1|G@T / HTTP/1.1|"
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03|\x00\x00\x00\x00|\xff\xff\xff\xff|\r\r\r\r|"
    b"GET / HTTP/1.1\rHost: a|*1\r\n$4\r\nPING|SSH-2.0-OpenSSH_9.9|<?xml version='1.0'?>|{}|"
    b"GET /\xc3\xa9 HTTP/1.1"
)

_TARGETS = [
    *_split_bytes(
        b"http://[|http://]|http://[::1|//[|/[|//|///|*|localhost:80|?|#|file:///etc/passwd|\\|/%|/%zz|"
        b"/%00|/%ff%fe|;|/\\..\\..|javascript:alert(1)|/"
    ),
    *[b"/" + b"a" * 10000],
]

_METHODS = _split(
    "PUT|PATCH|OPTIONS|TRACE|CONNECT|PROPFIND|MKCOL|COPY|MOVE|LOCK|PURGE|BREW|get|Get|post|GETT|"
    "DELETE|POST|GET"
)

#: What is not a token; T is the token.
_TOKENS = (
    "a Ta T%c3%a9 T%00 %00T T%20 %20T T%0d%0a .T %2e/T ./T x/../T ..%2fT T%2f T%3f T;a T%23 * %25T null"
    " undefined 0 [] {} %2a %f0%9f%98%80 'or'1'='1"
)

#: Paths that would lead out of what was opened.
_PATHS = _split(
    "../secret|..|.|a/../../secret|/etc/passwd|//etc/passwd|a//b|a/|..\\secret|C:\\secret|c:secret|a\x00b|a\nb|"
    "a/./b|~/../x"
)

_HOSTS = _split(
    "evil.example|localhost.evil.example|evil.example:80|localhost@evil.example|127.0.0.1.nip.io|"
    "localhost:80:80|localhost/|localhost#|localhost?|localhost\\|[|[::1|::1]:x|0|0.0.0.0|127.1|"
    "2130706433|0x7f.1|localhost.|-|*|localhost,evil.example"
)

#: Headers about the length of a body of five bytes.
_LENGTHS = _split_bytes(
    b"Content-Length: 5\r\nTransfer-Encoding: chunked|"
    b"Transfer-Encoding: chunked\r\nContent-Length: 5|Content-Length: 5\r\nContent-Length: 5|"
    b"Content-Length: 5, 5|Content-Length: 5\r\nContent-Length: 0|"
    b"Content-Length: 0\r\ncontent-length: 99|Content-Length: 5,0|Content-Length: +5|"
    b"Content-Length: -5|Content-Length: 0x5|Content-Length: 5 5|Content-Length: five|"
    b"Content-Length:|Content-Length : 5|Content-Length: 5.0|Content-Length: 1e1|"
    b"Content-Length: 99999999999999999999999999|Content-Length: \xd9\xa5| Content-Length: 5|"
    b"X: a\r\n Content-Length: 5|Content-Length: 5\x00|Content-Length: \x0b5|Content_Length: 5|"
    b"Content-Length: 5\rContent-Length: 0|\xffContent-Length: 5|"
    b"Transfer-Encoding: chunked, identity|Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked|"
    b"Transfer-Encoding: identity|Transfer-Encoding: xchunked|Transfer-Encoding : chunked|"
    b"Transfer-Encoding: chunked |Transfer-Encoding: \x0bchunked|Transfer-Encoding:\tchunked|"
    b"Transfer-Encoding: gzip, chunked|Transfer-Encoding: 'chunked'|TRANSFER-ENCODING: CHUNKED|"
    b"X: y\nTransfer-Encoding: chunked|Transfer-Encoding: chunked\r\nContent-Length: 0|"
    b"Transfer-Encoding: chunked; a=b|transfer-encoding: chunked\r\nTE: trailers"
)

#: First lines of bodies that ask nothing.
_HEADS = [
    *_split_bytes(b'||{|[]|null|1|\xff|{}|[1]|[{}]|{"paths":1}|{"paths":[]}|{"paths":["a"],"x":1}'),
    b"[" * 10000,
]


def _expect(*statuses: int) -> frozenset[int]:
    return frozenset(statuses)


_REFUSED = _expect(400, 403, 404, 405)
_MALFORMED = _expect(0, 400)


def all_attacks(url: str, seed: int = 1) -> list[Attack]:
    """Returns attacks on a server.

    Args:
        url: The address of its page, which holds the token.
        seed: Of the mutated requests.
    """
    base = urlsplit(url).path
    families: Sequence[Iterable[Attack]] = (
        _request_lines(base),
        _methods(base),
        _questions(base),
        _tokens(base),
        _hosts(base),
        _framings(base),
        _heads(base),
        _models(base),
        _aborted(base),
        _mutated(base, random.Random(seed)),
    )
    return [attack for family in families for attack in family]


def _request(
    method: str, target: str | bytes, *headers: str | bytes, body: bytes = b"", host: str = "localhost"
) -> bytes:
    raw = target if isinstance(target, bytes) else target.encode()
    lines = [method.encode() + b" " + raw + b" HTTP/1.1"]
    lines += [b"Host: " + host.encode()] if host else []
    lines += [header if isinstance(header, bytes) else header.encode() for header in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def _post(base: str, path: str, head: bytes, content: bytes = b"") -> bytes:
    body = head + b"\n" + content
    return _request("POST", base + path, f"Content-Length: {len(body)}", body=body)


def _request_lines(base: str) -> Iterator[Attack]:
    end = b"\r\nHost: localhost\r\n\r\n"
    path = base.encode()
    for line in _LINES:
        yield Attack(kind="request line", steps=(line + end, _SHUT), statuses=_REFUSED | _MALFORMED)
    targets = [*_TARGETS, b"http://localhost" + path, b"http://evil.example" + path, b"%2f" + path[1:]]
    for target in targets:
        yield Attack(kind="target", steps=(_request("GET", target), _SHUT), statuses=_REFUSED | _MALFORMED)
    for version in (b"0.9", b"2.0", b"3.0", b"9.9"):
        line = b"GET " + path + b" HTTP/" + version
        yield Attack(kind="version", steps=(line + end,), statuses=_expect(0, 200, 400, 505))
    yield Attack(kind="version", steps=(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",), statuses=_REFUSED | _MALFORMED)
    yield Attack(kind="version", steps=(b"GET / HTTP/1.0\r\n\r\n",), statuses=_REFUSED)


def _methods(base: str) -> Iterator[Attack]:
    posts = ("models", "models/x/answer", "models/x/profile", "models/x/prediction")
    for method, path in product([*_METHODS, "X" * 5000], ("", *posts)):
        if (method, path) != ("GET", ""):
            sent = _request(method, base + path, "X-HTTP-Method-Override: DELETE", "X-Method: GET")
            yield Attack(kind="method", steps=(sent,), statuses=_REFUSED | _expect(411))


def _questions(base: str) -> Iterator[Attack]:
    """Questions on models that are not there, and paths that lead elsewhere."""
    for head, path in product(_HEADS, ("answer", "profile", "prediction")):
        yield Attack(kind="question", steps=(_post(base, f"models/x/{path}", head),), statuses=_expect(400))
    for path, place in product(_PATHS, ("answer", "profile")):
        head = json.dumps({"paths": [path]}).encode()
        yield Attack(kind="question", steps=(_post(base, f"models/x/{place}", head),), statuses=_expect(400))
    for name in ("..", "%2e%2e", "x%2f..", ".lock", "%00", "x" * 9000):
        sent = _post(base, f"models/{name}/answer", b'{"paths":["a"]}')
        yield Attack(kind="question", steps=(sent,), statuses=_REFUSED)
    huge = _request("POST", f"{base}models/x/prediction", "Content-Length: 99999999999")
    yield Attack(kind="question", steps=(huge,), statuses=_expect(400, 413))


def _tokens(base: str) -> Iterator[Attack]:
    token = base.strip("/")
    wrong = [form.replace("T", token) for form in _TOKENS.split()]
    wrong += [
        "",
        token[:-1],
        token[1:],
        token.swapcase(),
        token[::-1],
        "A" * len(token),
        token * 2,
        "x" * 8000,
    ]
    wrong.append("".join(f"%25{ord(char):02x}" for char in token))
    for name, path in product(wrong, ("/", "/models/x/answer")):
        yield Attack(kind="token", steps=(_request("GET", f"/{name}{path}"),), statuses=_REFUSED)
    for header in (f"Cookie: token={token}", f"Authorization: Bearer {token}", f"X-Token: {token}"):
        yield Attack(kind="token", steps=(_request("GET", "/", header),), statuses=_REFUSED)
    yield Attack(kind="token", steps=(_post("/wrong/", "models", b"[]"),), statuses=_REFUSED)


def _hosts(base: str) -> Iterator[Attack]:
    for host in [*_HOSTS, "local host", "a" * 9000]:
        yield Attack(kind="host", steps=(_request("GET", base, host=host),), statuses=_REFUSED | _MALFORMED)
    missing = _request("GET", base, host="")
    yield Attack(kind="host", steps=(missing,), statuses=_expect(400))
    for second in ("localhost", "evil.example", ""):
        sent = _request("GET", base, f"Host: {second}")
        yield Attack(kind="host", steps=(sent,), statuses=_expect(400))
    for header in ("X-Forwarded-Host: localhost", "Forwarded: host=localhost", "X-Real-IP: 127.0.0.1"):
        sent = _request("GET", base, header, host="evil.example")
        yield Attack(kind="host", steps=(sent,), statuses=_expect(403))


def _framings(base: str) -> Iterator[Attack]:
    """Requests whose length can be read in two ways, with a second request inside."""
    hidden = _request("GET", base)
    chunked = b"5\r\nmodel\r\n0\r\n\r\n"
    statuses = _expect(0, 400, 403, 411, 501)  # a folded header belongs to the host before it
    for given, body in product(_LENGTHS, (chunked, b"")):
        sent = _request("POST", base + "models", given, body=body + hidden)
        yield Attack(kind="framing", steps=(sent, _SHUT), statuses=statuses)
    chunks = [
        b"-5\r\nmodel",
        b"0x5\r\nmodel",
        b"F" * 30 + b"\r\n",
        b"g\r\n",
        b"\r\n",
        b" 5\r\nmodel\r\n",
        b"5\nmodel\n",
        b"5;" + b"a" * 100_000 + b"\r\nmodel",
        b"5\r\nmodelX",
        b"0\r\n\r\n",
        b"0\r\nTrailer: " + b"b" * 100_000,
        b"1\r\na" * 5000,
    ]
    for chunk in chunks:
        sent = _request("POST", base + "models", "Transfer-Encoding: chunked", body=chunk + hidden)
        yield Attack(kind="framing", steps=(sent, _SHUT), statuses=_expect(0, 400, 411))
        sent = _request("GET", base, "Transfer-Encoding: chunked", body=chunk + hidden)
        yield Attack(kind="framing", steps=(sent, _SHUT), statuses=_expect(0, 200, 400))
    for count in (2, 50):
        yield Attack(kind="pipeline", steps=(hidden * count, _SHUT), statuses=_expect(200))
    sent = _request("GET", base, "Content-Length: 3") + hidden
    yield Attack(kind="pipeline", steps=(sent, _SHUT), statuses=_expect(200))


def _heads(base: str) -> Iterator[Attack]:
    headers = [b"A: " + b"a" * 100_000, b"A: " + b"a" * 2_000_000, b"Cookie: " + b"a=b; " * 50_000]
    headers += [
        b"\r\n".join([b"A: b"] * 30_000),
        b"\r\n".join([b"A: b", b" c"] * 5000),
        b"a" * 100_000 + b": b",
    ]
    headers.append(b"\r\n".join(b"A%d: b" % number for number in range(5000)))
    for header in headers:
        yield Attack(kind="head", steps=(_request("GET", base, header),), statuses=_expect(0, 200, 400, 431))
    odd: list[bytes] = [
        b": a",
        b"a",
        b"A\x00: b",
        b"A: b\x00",
        b"A b: c",
        b"A: \x7f",
        b"\xc3\xa9: a",
        b"(): a",
        b"A:\x08",
    ]
    for header in odd:
        yield Attack(kind="head", steps=(_request("GET", base, header),), statuses=_expect(0, 200, 400))
    for header in ("Upgrade: h2c", "Upgrade: websocket", "Upgrade: websocket\r\nSec-WebSocket-Key: a"):
        sent = _request("GET", base, "Connection: Upgrade", header)
        yield Attack(kind="head", steps=(sent,), statuses=_expect(200, 400))
    for header in ("Range: bytes=0-0", "Range: bytes=" + "0-0," * 2000, "If-None-Match: *", "Expect: 200-ok"):
        yield Attack(kind="head", steps=(_request("GET", base, header),), statuses=_expect(200, 400, 417))
    yield Attack(kind="head", steps=(b"\r\n" * 100_000, _SHUT), statuses=_MALFORMED)


def _zip(*members: tuple[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in members:
            opened.writestr(name, content)
    return archive.getvalue()


def _link_zip(target: str) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        member = zipfile.ZipInfo("m.mlpackage/Manifest.json")
        member.external_attr = 0o120777 << 16
        opened.writestr(member, target)
    return archive.getvalue()


def _models(base: str) -> Iterator[Attack]:
    for head in _HEADS:
        if head != b"[]":
            yield Attack(kind="model", steps=(_post(base, "models", head),), statuses=_expect(400))
    for path in _PATHS:
        sent = _post(base, "models", json.dumps([{"path": path, "size": 1}]).encode(), b"x")
        yield Attack(kind="model", steps=(sent,), statuses=_expect(400))
    for sizes in ([2], [-1, 2], [0], [1, 1], [1 << 80]):
        head = json.dumps([{"path": f"a{at}", "size": size} for at, size in enumerate(sizes)]).encode()
        yield Attack(kind="model", steps=(_post(base, "models", head, b"x"),), statuses=_expect(400))
    twice = json.dumps([{"path": "a", "size": 1}, {"path": "a", "size": 1}]).encode()
    inside = json.dumps([{"path": "a", "size": 1}, {"path": "a/b", "size": 1}]).encode()
    for head in (twice, inside):
        yield Attack(kind="model", steps=(_post(base, "models", head, b"xy"),), statuses=_expect(400, 507))
    for size in (1 << 31, 1 << 40, 10**15):
        sent = _request("POST", base + "models", f"Content-Length: {size}", "Expect: 100-continue")
        yield Attack(kind="model size", steps=(sent,), statuses=_expect(413))
    yield Attack(kind="model size", steps=(_request("POST", base + "models"),), statuses=_expect(411))


def _bomb() -> bytes:
    return _zip(("m.mlpackage/Manifest.json", bytes(64 << 20)))


def _entities() -> bytes:
    entities = b"".join(b'<!ENTITY x%d "%s">' % (n, b"&x%d;" % (n - 1) * 10) for n in range(1, 9))
    return b"<!DOCTYPE a [" + entities + b"]><a>&x8;</a>"


#: Files that are opened as models: a name, and what builds the content.
HOSTILE_FILES: Mapping[str, tuple[str, Callable[[], bytes]]] = {
    "bomb": ("m.zip", _bomb),
    "many members": (
        "m.zip",
        lambda: _zip(*[(f"m.mlpackage/{number}", bytes(1 << 20)) for number in range(100)]),
    ),
    "deep report": ("m.mlperf.zip", lambda: _zip(("m.mlperf/report.json", b"[" * (32 << 20)))),
    "bomb in an archive": ("m.zip", lambda: _zip(("a.zip", _bomb()))),
    "link to a parent": ("m.zip", lambda: _link_zip("../../../../secret.json")),
    "link to a file of the system": ("m.zip", lambda: _link_zip("/etc/passwd")),
    "cut archive": ("m.zip", lambda: _bomb()[:-100]),
    "members outside": ("m.zip", lambda: _zip(("../../../evil.mlmodel", b"x"), ("/evil.mlmodel", b"x"))),
    "damaged archive": ("m.zip", lambda: (bomb := _bomb())[:100] + bytes(200) + bomb[300:]),
    "deep JSON": ("m.json", lambda: b"[" * 1_000_000),
    "empty profile": ("m.json", lambda: b'{"schema": "coremlscope.profile/2"}'),
    "no UTF-8": ("m.json", lambda: b"\xff\xfe{}"),
    "foreign entity": ("m.xml", lambda: b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'),
    "nested entities": ("m.xml", _entities),
    "empty property list": ("m.plist", lambda: b"bplist00" + bytes(40)),
    "long field": ("m.mlmodel", lambda: b"\x0a\xff\xff\xff\xff\x0f"),
    "random bytes": ("m.mlmodel", lambda: random.Random(1).randbytes(100_000)),
}


def _aborted(base: str) -> Iterator[Attack]:
    head = _request("POST", base + "models", "Content-Length: 100000")
    get = _request("GET", base)
    for size in (0, 1, 10, 100, 1000, 10_000, 99_999):
        for end in (_SHUT, _RESET):
            steps = (head + bytes(size), 0.05, end)
            yield Attack(kind="aborted upload", steps=steps, statuses=_expect(0, 400, 503))
    waiting = _request("POST", base + "models", "Content-Length: 100000", "Expect: 100-continue")
    yield Attack(kind="aborted upload", steps=(waiting, 0.05, _RESET), statuses=_expect(0))
    for size in (1, 3, len(get) // 2, len(get) - 1, len(get)):
        statuses = _expect(0, 200) if size == len(get) else _MALFORMED
        yield Attack(kind="aborted request", steps=(get[:size], _RESET), statuses=_expect(0))
        yield Attack(kind="aborted request", steps=(get[:size], _SHUT), statuses=statuses)


def _mutated(base: str, randomness: random.Random) -> Iterator[Attack]:
    """Requests with bytes changed, removed, repeated or inserted."""
    valid = [
        _request("GET", base),
        _request("GET", base, "Accept: */*", "Connection: keep-alive"),
        _post(base, "models", b'[{"path":"../m","size":5}]', b"model"),
        _request("POST", base + "models", "Transfer-Encoding: chunked", body=b"5\r\nmodel\r\n0\r\n\r\n"),
        _post(base, "models/x/answer", b'{"paths":["m"]}'),
    ]
    special = [b"\r\n", b"\n", b"\x00", b"%", b":", b" ", b"\xff", b"/", b"..", b"[", b"\r", b"0"]
    changes: list[Callable[[bytearray, int], None]] = [
        lambda sent, at: sent.__setitem__(at, randomness.randrange(256)),
        lambda sent, at: sent.__delitem__(slice(at, at + randomness.randrange(1, 9))),
        lambda sent, at: sent.__setitem__(slice(at, at), sent[at : at + randomness.randrange(1, 40)]),
        lambda sent, at: sent.__setitem__(slice(at, at), randomness.choice(special)),
    ]
    for _ in range(150):
        sent = bytearray(randomness.choice(valid))
        for _ in range(randomness.randrange(1, 4)):
            randomness.choice(changes)(sent, randomness.randrange(len(sent)))
        statuses = _expect(0, 200, 303, 400, 403, 404, 405, 411, 413, 501)
        yield Attack(kind="mutated", steps=(bytes(sent), _SHUT), statuses=statuses)


def perform(attack: Attack, url: str, patience_s: float) -> Outcome:
    """Performs an attack.

    Args:
        attack: The attack.
        url: The address of the page.
        patience_s: How long to wait for an answer, or for the end of the connection, after the last step.
    """
    begun, received, has_ended = time.monotonic(), b"", False
    parts = urlsplit(url)
    with socket.socket(socket.AF_INET) as client:
        client.settimeout(patience_s)
        client.connect((parts.hostname, parts.port))
        with contextlib.suppress(ConnectionError):
            for step in attack.steps:
                _take(step, client)
        if _RESET in attack.steps:
            return Outcome(received=b"", took_s=time.monotonic() - begun, has_ended=True)
        try:
            while not _is_answer(received) and (chunk := client.recv(_CHUNK)):
                received += chunk
            has_ended = True
        except TimeoutError:
            pass
        except ConnectionError:
            has_ended = True
    return Outcome(received=received, took_s=time.monotonic() - begun, has_ended=has_ended)


def _take(step: Step, client: socket.socket) -> None:
    if isinstance(step, bytes):
        client.sendall(step)
    elif step == _SHUT:
        client.shutdown(socket.SHUT_WR)
    elif step == _RESET:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    else:
        time.sleep(float(step))


_HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) [A-Za-z -]*\r\n(?:[A-Za-z-]+: ?[^\r\n]*\r\n)*\r\n")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: ?(\d+)\r\n", re.IGNORECASE)


def _is_answer(received: bytes) -> bool:
    """Returns whether a response is complete; one without a length ends with its connection."""
    head = _HEAD.match(received.removeprefix(_CONTINUE))
    length = head and _LENGTH.search(head[0])
    return bool(head and length and len(received.removeprefix(_CONTINUE)) >= head.end() + int(length[1]))


def problems(attack: Attack, outcome: Outcome) -> list[str]:
    """Returns what is wrong with the outcome of an attack; nothing if the server withstood it."""
    found = [] if outcome.has_ended else [f"not answered after {outcome.took_s:.1f} s"]
    received = outcome.received
    leaks = (b"Traceback", b'File "', b"root:x:")
    found += [f"shows {leak!r}" for leak in leaks if leak in received]
    status, rest = 0, received.removeprefix(_CONTINUE)
    if head := _HEAD.match(rest):
        status, rest = int(head[1]), rest[head.end() :]
    elif rest:
        found.append(f"not a response: {rest[:60]!r}")
    if status not in attack.statuses:
        found.append(f"status {status}: {rest[:100]!r}")
    return found
