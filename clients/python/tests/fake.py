"""A server that answers what a test tells it to."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, List, Tuple, Union

OPERATION: Dict[str, Any] = {
    "op_id": "01a1dfbe-3f78-7059-9a95-761888da438a",
    "domain": "payments",
    "event_type": "charge",
    "biz_key": "order-123",
    "idem_key": "k",
    "state": "COMPLETED",
    "phase": None,
    "attempts": 1,
    "seq": 1,
    "version": 4,
    "priority": 0,
    "labels": {},
    "run_at": None,
    "deadline": None,
    "accepted_at": "2026-11-15T15:05:49.688Z",
    "started_at": None,
    "finished_at": None,
    "next_attempt_at": None,
    "effect": "none",
    "late_ok": False,
    "cancel_requested": False,
    "hold": None,
    "redrive_of": None,
    "redriven_by": None,
    "batch_id": None,
    "trace_id": None,
    "result": {"provider_txn_id": "tx_9", "payload": {"rows": 3}},
    "failure": None,
    "last_error": None,
    "outbound_key": None,
    "destination": None,
}

Answer = Tuple[int, Dict[str, str], bytes]


def problem(status: int, code: str, **headers: str) -> Answer:
    document = {
        "type": "about:blank",
        "title": "x",
        "status": status,
        "code": code,
        "detail": "why",
    }
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, named, json.dumps(document).encode()


def operation(**changes: Any) -> Answer:
    return 200, {}, json.dumps({**OPERATION, **changes}).encode()


#: The connection is closed without an answer.
DROP: Answer = (0, {}, b"")
#: The answer ends in its middle.
CUT: Answer = (-1, {}, b"")
#: The answer ends with its connection, and comes in two parts.
TO_THE_END = -3
#: The answer comes in chunks.
CHUNKED = -2


class Fake:
    """Answers requests in order; the last answer is repeated. An answer may depend on the path."""

    def __init__(self, *answers: Union[Answer, Callable[[str], Answer]]) -> None:
        self.requests: List[Tuple[str, str, Any]] = []
        self.headers: List[Dict[str, str]] = []
        self.connections = 0
        self._answers = list(answers)
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                fake.connections += 1
                super().setup()

            def log_message(self, *_: Any) -> None:
                pass

            def respond(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length)
                fake.requests.append((self.command, self.path, json.loads(body) if body else None))
                fake.headers.append({name.lower(): value for name, value in self.headers.items()})
                answers = fake._answers
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                if callable(answer):
                    answer = answer(self.path)
                status, headers, body = answer
                if status == 0:
                    self.close_connection = True
                    return
                if status == -1:
                    self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{")
                    self.close_connection = True
                    return
                if status == TO_THE_END:
                    self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n" + body[:9])
                    time.sleep(0.05)
                    self.wfile.write(body[9:])
                    self.close_connection = True
                    return
                if status == CHUNKED:
                    self.send_response(200)
                    self.send_header("transfer-encoding", "chunked")
                    self.end_headers()
                    for start in range(0, len(body), 100):
                        part = body[start : start + 100]
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                    self.wfile.write(b"0\r\n\r\n")
                    return
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = respond  # noqa: N815
            do_POST = respond  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Fake:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
