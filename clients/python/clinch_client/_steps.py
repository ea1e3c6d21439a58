"""What a request does, without doing it.

A call of the API is a generator of steps: send this request, or pause. :class:`Client` performs
the steps with blocking sockets, :class:`AsyncClient` with asyncio. So what is repeated, how long
and with which keys is written once.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from typing import Any, Dict, Generator, List, Mapping, Optional, TypeVar, Union
from urllib.parse import quote, urlencode

from . import errors
from .model import Problem, decode

T = TypeVar("T")

#: The first pause before a request is repeated; doubles with each repeat.
PAUSE_FIRST = 0.1
#: The longest pause that this client chooses itself: a restarted server is noticed soon.
PAUSE_MAX = 5.0
#: The longest ``Retry-After`` that is followed.
RETRY_AFTER_MAX = 60.0
#: The longest wait that the server allows.
WAIT_MAX = 60.0
#: How much later than asked for an answer may come before the connection counts as broken.
ANSWER_GRACE = 15.0
#: The longest answer that is read: a page of 1,000 operations holds 4 MiB of payloads, and a
#: lease 64 MiB.
ANSWER_BYTES_MAX = 80 * 1024 * 1024


NOT_JSON = "the answer is not JSON: is this a Clinch server?"


@dataclass(frozen=True)
class Endpoint:
    """A route of the API."""

    method: str
    path: str
    #: Two equal requests have the effect of one.
    repeatable: bool = True


ENDPOINTS: Dict[str, Endpoint] = {
    "submit": Endpoint("POST", "/v1/operations"),
    "bulk": Endpoint("POST", "/v1/operations/bulk"),
    "get": Endpoint("GET", "/v1/operations/{op_id}"),
    "list": Endpoint("GET", "/v1/operations"),
    "cancel": Endpoint("POST", "/v1/operations/{op_id}/cancel"),
    "open_batch": Endpoint("POST", "/v1/batches"),
    "list_batches": Endpoint("GET", "/v1/batches"),
    "get_batch": Endpoint("GET", "/v1/batches/{batch_id}"),
    "add_to_batch": Endpoint("POST", "/v1/batches/{batch_id}/operations"),
    "seal_batch": Endpoint("POST", "/v1/batches/{batch_id}/seal"),
    # Every lease begins other attempts. The worker asks anew instead.
    "lease": Endpoint("POST", "/v1/leases", repeatable=False),
    "heartbeat": Endpoint("POST", "/v1/leases/{op_id}/heartbeat"),
    "checkpoint": Endpoint("POST", "/v1/leases/{op_id}/checkpoint"),
    "release": Endpoint("POST", "/v1/leases/{op_id}/release"),
    "outcome": Endpoint("POST", "/v1/leases/{op_id}/outcome"),
}


@dataclass(frozen=True)
class Send:
    """Send a request and come back with a :class:`Reply` or a :class:`Broken`."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: Optional[bytes] = field(repr=False)
    timeout: float


@dataclass(frozen=True)
class Pause:
    """Wait for this many seconds."""

    seconds: float


@dataclass(frozen=True)
class Reply:
    """The server's answer. The names of headers are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    def is_json(self) -> bool:
        """Whether the body is JSON, as every answer of Clinch."""
        try:
            json.loads(self.body)
        except ValueError:
            return False
        return True

    def json(self) -> Any:
        """The body as JSON."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise errors.ClinchError(NOT_JSON) from error

    def members(self, name: str) -> List[Dict[str, Any]]:
        """A list of the body, by its name."""
        document = self.json()
        found = document.get(name) if isinstance(document, dict) else None
        if not isinstance(found, list):
            raise errors.ClinchError(f"the answer has no {name}: is this a Clinch server?")
        return found


@dataclass(frozen=True)
class Broken:
    """No answer: the connection failed or broke, or the answer did not come in time."""

    reason: str


Step = Union[Send, Pause]
Outcome = Union[Reply, Broken, None]
Steps = Generator[Step, Outcome, T]


def request(
    name: str,
    *,
    budget: float,
    body: Any = None,
    query: Optional[Mapping[str, Any]] = None,
    headers: Optional[Mapping[str, str]] = None,
    wait: float = 0.0,
    until: Optional[float] = None,
    patient: bool = False,
    **path: str,
) -> Steps[Reply]:
    """Sends a request, and sends it again while that is safe and may help.

    ``budget`` is the time for repeats, from the first failure. ``wait`` is how long the server may
    take for its answer; ``until`` says up to when it is asked to wait instead. ``patient`` repeats
    whatever may pass: a bug of the server, a key that is being exchanged, an answer that Clinch
    did not give. What is reported must not be lost.
    """
    endpoint = ENDPOINTS[name]
    target = endpoint.path
    for member, value in path.items():
        target = target.replace("{" + member + "}", quote(value, safe=""))
    given = {key: value for key, value in (query or {}).items() if value is not None}
    text = body if body is None or isinstance(body, bytes) else encode(body)
    last: Optional[float] = None
    pause = PAUSE_FIRST
    while True:
        if until is not None:
            wait = min(max(until - time.monotonic(), 0.0), WAIT_MAX)
            given["wait"] = milliseconds(wait)
        asked = f"{target}?{urlencode(given)}" if given else target
        reply = yield Send(endpoint.method, asked, dict(headers or {}), text, wait + ANSWER_GRACE)
        trouble = _trouble(reply, patient)
        if trouble is None:
            assert isinstance(reply, Reply)
            return reply
        if not _may_pass(trouble, patient):
            raise trouble
        # Half to whole: the callers of a restarted server do not come all at once.
        seconds = max(trouble.retry_after, pause * (0.5 + random.random() / 2))
        now = time.monotonic()
        last = now + budget if last is None else last
        if not endpoint.repeatable or now + seconds > last:
            raise trouble
        yield Pause(seconds)
        pause = min(pause * 2, PAUSE_MAX)


def encode(body: Any) -> bytes:
    """JSON as the server reads it: neither NaN nor infinity, which ``json`` would write."""
    return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()


def milliseconds(seconds: float) -> str:
    """A duration for the API."""
    return f"{max(0, round(seconds * 1000))}ms"


def _trouble(reply: Outcome, patient: bool) -> Optional[errors.ClinchError]:
    """The error of an answer. None: the answer is good."""
    if not isinstance(reply, Reply):
        reason = reply.reason if reply else "no answer"
        return errors.Unavailable(f"the server cannot be reached: {reason}")
    if 200 <= reply.status < 300:
        return errors.Unavailable(NOT_JSON) if patient and not reply.is_json() else None
    trouble = errors.of(_problem(reply))
    text = reply.headers.get("retry-after", "")
    if text.isascii() and text.isdigit():
        trouble.retry_after = min(float(text), RETRY_AFTER_MAX)
    return trouble


def _may_pass(trouble: errors.ClinchError, patient: bool) -> bool:
    """Whether the same request may get another answer."""
    if isinstance(trouble, errors.Unavailable):
        return True
    if not patient or isinstance(trouble, errors.PayloadTooLarge):
        return False
    passing = (errors.ServerError, errors.Unauthorized, errors.Forbidden)
    return isinstance(trouble, passing) or not errors.is_of_clinch(trouble)


def _problem(reply: Reply) -> Problem:
    try:
        document = json.loads(reply.body)
        if isinstance(document, dict) and "code" in document:
            return decode(Problem, document)
    except (ValueError, errors.ClinchError):
        pass
    # Not an answer of Clinch. Its text may be long or private: it is left out.
    detail = f"HTTP status {reply.status}, not an answer of a Clinch server"
    return Problem("about:blank", "", reply.status, "", detail)
