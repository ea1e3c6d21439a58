"""HTTP/1.1 on asyncio streams.

The client uses streams and not threads: a worker and a program with many waiting calls hold a
connection for each of them, which costs far less than a thread, and a cancelled task closes its
connection at once. Only what Clinch and usual proxies answer is read: a body with a length, in
chunks, or up to the end of the connection.
"""

from __future__ import annotations

import asyncio
import time
from typing import Dict, List, Tuple, Union

from ._address import CONNECT_TIMEOUT, IDLE_MAX, Address
from ._steps import ANSWER_BYTES_MAX, Broken, Reply, Send

#: Headers of one answer.
HEADERS_MAX = 200
#: Idle connections that a client keeps.
IDLE_CONNECTIONS_MAX = 64

_Streams = Tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Malformed(Exception):
    """The answer is not HTTP/1.1."""


class Connections:
    """Connections to one server, kept alive. To be used within one event loop."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: List[Tuple[float, _Streams]] = []

    async def send(self, send: Send) -> Union[Reply, Broken]:
        """Sends a request, and reads the answer or says why there is none."""
        # Outside `try`: a wrong header is an error of the caller, not of the connection.
        request = self._head(send) + (send.body or b"")
        try:
            exchange = self._exchange(request)
            return await asyncio.wait_for(exchange, send.timeout + CONNECT_TIMEOUT)
        except asyncio.TimeoutError:
            return Broken("no answer in time")
        except (OSError, EOFError, ValueError, _Malformed) as error:
            return Broken(type(error).__name__)

    async def _exchange(self, request: bytes) -> Reply:
        streams = await self._streams()
        reader, writer = streams
        try:
            writer.write(request)
            await writer.drain()
            reply, keeps = await _answer(reader)
        except BaseException:
            writer.close()
            raise
        if keeps and len(self._idle) < IDLE_CONNECTIONS_MAX:
            self._idle.append((time.monotonic(), streams))
        else:
            writer.close()
        return reply

    def _head(self, send: Send) -> bytes:
        address = self._address
        host = f"[{address.host}]" if ":" in address.host else address.host
        lines = [
            f"{send.method} {address.prefix}{send.target} HTTP/1.1",
            f"host: {host}:{address.port}",
        ]
        headers = address.headers(send.headers, send.body is not None)
        if send.body is not None:
            headers["content-length"] = str(len(send.body))
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    async def _streams(self) -> _Streams:
        now = time.monotonic()
        while self._idle:
            since, (reader, writer) = self._idle.pop()
            if now - since < IDLE_MAX and not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        address = self._address
        opening = asyncio.open_connection(address.host, address.port, ssl=address.tls)
        return await asyncio.wait_for(opening, CONNECT_TIMEOUT)

    def close(self) -> None:
        """Closes idle connections."""
        for _, (_, writer) in self._idle:
            writer.close()
        self._idle.clear()


async def _answer(reader: asyncio.StreamReader) -> Tuple[Reply, bool]:
    """The answer, and whether the connection can be used again."""
    status = 100
    while 100 <= status < 200:
        line = await _line(reader)
        parts = line.split(" ", 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdigit():
            raise _Malformed(line)
        status = int(parts[1])
        headers = await _headers(reader)
    keeps = parts[0] == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
    if status in (204, 304):
        return Reply(status, headers, b""), keeps
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return Reply(status, headers, await _chunks(reader)), keeps
    length = headers.get("content-length")
    if length is not None:
        return Reply(status, headers, await reader.readexactly(_bounded(length, 10))), keeps
    return Reply(status, headers, await _rest(reader)), False


async def _headers(reader: asyncio.StreamReader) -> Dict[str, str]:
    headers: Dict[str, str] = {}
    for _ in range(HEADERS_MAX):
        line = await _line(reader)
        if not line:
            return headers
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    raise _Malformed("too many headers")


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        size = _bounded((await _line(reader)).split(";")[0].strip(), 16)
        if size == 0:
            await _headers(reader)
            return bytes(body)
        if len(body) + size > ANSWER_BYTES_MAX:
            raise _Malformed("the answer is too long")
        body += await reader.readexactly(size)
        await _line(reader)


async def _rest(reader: asyncio.StreamReader) -> bytes:
    """A body that ends with its connection."""
    body = bytearray()
    while True:
        part = await reader.read(64 * 1024)
        if not part:
            return bytes(body)
        body += part
        if len(body) > ANSWER_BYTES_MAX:
            raise _Malformed("the answer is too long")


async def _line(reader: asyncio.StreamReader) -> str:
    # A line longer than the stream's limit of 64 KiB is a ValueError.
    line = await reader.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return line.decode("latin-1").rstrip("\r\n")


def _bounded(text: str, base: int) -> int:
    size = int(text, base)
    if not 0 <= size <= ANSWER_BYTES_MAX:
        raise _Malformed("the answer is too long")
    return size
