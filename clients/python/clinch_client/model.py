"""The documents of the API. Members have the names of ``/openapi.json``; times are ``datetime``."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, timezone
from typing import Any, Dict, List, Mapping, Optional, Type, TypeVar, Union, get_type_hints

from . import errors

T = TypeVar("T")

#: Anything that JSON can express.
Json = Any


@dataclass(frozen=True)
class Command:
    """An operation to submit. ``idem_key`` is made up where it is left out."""

    domain: str
    event_type: str
    biz_key: str
    payload: Json = field(default=None, repr=False)
    idem_key: Optional[str] = None
    run_at: Optional[datetime] = None
    deadline: Optional[datetime] = None
    priority: Optional[int] = None
    labels: Optional[Mapping[str, str]] = None


@dataclass(frozen=True)
class Hold:
    """Why an operation is not running now, such as ``backoff`` or ``effect_unknown``."""

    reason: str
    until: Optional[datetime]


@dataclass(frozen=True)
class Result:
    """The provider's successful answer."""

    provider_txn_id: Optional[str]
    payload: Json = field(repr=False)


@dataclass(frozen=True)
class Failure:
    """Why an operation is FAILED."""

    code: str
    message: str
    cause: Optional[str]
    effect: str


@dataclass(frozen=True)
class LastError:
    """The last error of an operation that has not completed."""

    code: str
    message: str
    at: datetime


@dataclass(frozen=True)
class Operation:
    """An operation as the server knows it."""

    op_id: str
    domain: str
    event_type: str
    biz_key: str
    idem_key: str
    state: str
    phase: Optional[str]
    attempts: int
    seq: Optional[int]
    version: Optional[int]
    priority: int
    labels: Dict[str, str]
    run_at: Optional[datetime]
    deadline: Optional[datetime]
    accepted_at: Optional[datetime]
    started_at: Optional[datetime]
    finished_at: Optional[datetime]
    next_attempt_at: Optional[datetime]
    effect: str
    late_ok: bool
    cancel_requested: bool
    hold: Optional[Hold]
    redrive_of: Optional[str]
    redriven_by: Optional[str]
    batch_id: Optional[str]
    trace_id: Optional[str]
    result: Optional[Result]
    failure: Optional[Failure]
    last_error: Optional[LastError]
    outbound_key: Optional[str]
    destination: Optional[str]
    pruned: bool = False

    @property
    def settled(self) -> bool:
        """COMPLETED or FAILED: the state does not change any more."""
        return self.state in ("COMPLETED", "FAILED")

    def value(self) -> Json:
        """The payload of the result.

        Raises :class:`OperationFailed` if the operation is FAILED, and :class:`NotSettled` if it
        is neither COMPLETED nor FAILED. Raises :class:`ResultPruned` if it is COMPLETED and its
        result is no longer stored, and :class:`Unavailable` if the server could not read the
        result when it answered: get the operation again.
        """
        if self.state == "FAILED":
            raise errors.OperationFailed(self)
        if not self.settled:
            raise errors.NotSettled(f"{self.op_id} is {self.state}", self)
        if self.result is not None:
            return self.result.payload
        if self.pruned:
            raise errors.ResultPruned(self)
        unread = errors.Unavailable(f"{self.op_id} is COMPLETED, and its result could not be read")
        unread.op_id, unread.idem_key = self.op_id, self.idem_key
        raise unread


@dataclass(frozen=True)
class Problem:
    """An RFC 9457 problem document."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    field: Optional[str] = None
    op_id: Optional[str] = None


@dataclass(frozen=True)
class BulkResult:
    """The result of one operation of a bulk request: an operation, or an error."""

    status: int
    op_id: Optional[str] = None
    state: Optional[str] = None
    replayed: Optional[bool] = None
    pruned: Optional[bool] = None
    error: Optional[Problem] = None

    def accepted(self) -> str:
        """The id of the operation. Raises the error if the operation was refused."""
        if self.op_id is not None:
            return self.op_id
        if self.error is None:
            raise errors.ClinchError("the result names neither an operation nor an error")
        raise errors.of(self.error)


@dataclass(frozen=True)
class Batch:
    """A group of operations with one end."""

    batch_id: str
    sealed: bool
    complete: bool
    total: int
    completed: int
    failed: int
    completed_at: Optional[datetime]


@dataclass(frozen=True)
class LeasedCommand:
    """The command of a leased operation."""

    domain: str
    event_type: str
    biz_key: str
    idem_key: str
    payload: Json = field(repr=False)
    run_at: Optional[datetime]
    deadline: Optional[datetime]
    priority: int
    labels: Dict[str, str]


@dataclass(frozen=True)
class Delivery:
    """A leased attempt. The token is a secret of this worker."""

    op_id: str
    fence: int
    token: str = field(repr=False)
    lease_until: Optional[datetime]
    attempt: int
    outbound_key: str
    deadline: Optional[datetime]
    checkpoint: Optional[Json] = field(repr=False)
    traceparent: Optional[str]
    command: LeasedCommand


@dataclass(frozen=True)
class LeaseState:
    """The operation after a worker's report."""

    op_id: str
    state: str
    phase: Optional[str]
    fence: int
    cancel_requested: bool
    lease_until: Optional[datetime]
    left_out: List[str] = field(default_factory=list)


#: The schema in ``/openapi.json`` of each class. A test compares their members.
SCHEMAS: Dict[str, type] = {
    "SubmitDocument": Command,
    "HoldDocument": Hold,
    "ResultDocument": Result,
    "FailureDocument": Failure,
    "LastErrorDocument": LastError,
    "OperationDocument": Operation,
    "ProblemDocument": Problem,
    "BulkResult": BulkResult,
    "BatchDocument": Batch,
    "CommandDocument": LeasedCommand,
    "DeliveryDocument": Delivery,
    "LeaseState": LeaseState,
}


_HINTS: Dict[type, Dict[str, Any]] = {}


def _hints(of: type) -> Dict[str, Any]:
    """The types of the members, read once."""
    if of not in _HINTS:
        _HINTS[of] = get_type_hints(of)
    return _HINTS[of]


def decode(of: Type[T], document: Mapping[str, Json]) -> T:
    """Reads a document. Members that this version does not know are ignored."""
    known = {}
    for member in fields(of):  # type: ignore[arg-type]
        hint = _hints(of)[member.name]
        if member.name in document:
            known[member.name] = _value(hint, document[member.name])
        elif getattr(hint, "__origin__", None) is Union:
            known[member.name] = None
    try:
        return of(**known)
    except TypeError as error:
        raise errors.ClinchError(f"the server's answer is not a {of.__name__}") from error


def _value(hint: Any, value: Json) -> Any:
    if getattr(hint, "__origin__", None) is Union:
        if value is None:
            return None
        hint = next(one for one in hint.__args__ if one is not type(None))
    if hint is datetime and isinstance(value, str):
        # Python 3.9 and 3.10 do not read the Z.
        return datetime.fromisoformat(value.replace("Z", "+00:00"))
    if is_dataclass(hint) and isinstance(value, dict):
        return decode(hint, value)  # type: ignore[arg-type]
    return value


def time_text(at: datetime) -> str:
    """A time for the API. A time without a zone is local time, as everywhere in Python."""
    return at.astimezone(timezone.utc).isoformat(timespec="milliseconds")


def command_document(command: Command) -> Dict[str, Json]:
    """A command for the API. The command has a key."""
    document: Dict[str, Json] = {
        "domain": command.domain,
        "event_type": command.event_type,
        "biz_key": command.biz_key,
        "idem_key": command.idem_key,
        "payload": command.payload,
    }
    if command.run_at is not None:
        document["run_at"] = time_text(command.run_at)
    if command.deadline is not None:
        document["deadline"] = time_text(command.deadline)
    if command.priority is not None:
        document["priority"] = command.priority
    if command.labels is not None:
        document["labels"] = dict(command.labels)
    return document
