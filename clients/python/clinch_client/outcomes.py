"""How a handler ends an attempt: return a value or :class:`Done`, or raise one of the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Sequence

from .model import Command, Json, command_document


@dataclass(frozen=True)
class Done:
    """The provider applied the call.

    ``spawn`` are operations that are accepted in the commit that settles this one. Without an
    ``idem_key`` of its own a spawned operation gets one that is the same in every attempt.
    """

    payload: Json = field(default=None, repr=False)
    txn_id: Optional[str] = None
    spawn: Sequence[Command] = ()


class Retry(Exception):
    """The attempt did not succeed; another one may.

    ``applied="no"``: the provider certainly did not apply the call, so it may be repeated on every
    route. ``applied="unknown"``: the call is repeated only where the route's ``safety`` allows it,
    and otherwise held for an operator. ``after``: no attempt before this many seconds have passed.
    """

    def __init__(
        self, reason: str, *, applied: str = "unknown", after: Optional[float] = None
    ) -> None:
        if applied not in ("no", "unknown"):
            raise ValueError("applied is 'no' or 'unknown'")
        super().__init__(reason)
        self.reason = reason
        self.applied = applied
        self.after = after


class Unknown(Retry):
    """It is unknown whether the provider applied the call: a timeout, or a broken connection."""

    def __init__(self, reason: str, *, after: Optional[float] = None) -> None:
        super().__init__(reason, after=after)


class Fail(Exception):
    """The provider refused the call for good: the operation is FAILED, without an effect."""

    def __init__(self, code: str, message: str = "", *, cause: Optional[str] = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.cause = cause


def document(outcome: Any, op_id: str) -> Dict[str, Json]:
    """The outcome for the API. A value that is none of the above is the payload of an ok."""
    if isinstance(outcome, Retry):
        retry: Dict[str, Json] = {
            "type": "retry",
            "reason": outcome.reason,
            "applied": outcome.applied,
        }
        if outcome.after is not None:
            retry["after_ms"] = max(0, round(outcome.after * 1000))
        return retry
    if isinstance(outcome, Fail):
        fail: Dict[str, Json] = {
            "type": "fail",
            "code": outcome.code,
            "message": outcome.message,
        }
        if outcome.cause is not None:
            fail["cause"] = outcome.cause
        return fail
    if not isinstance(outcome, Done):
        outcome = Done(outcome)
    ok: Dict[str, Json] = {"type": "ok", "payload": outcome.payload}
    if outcome.txn_id is not None:
        ok["provider_txn_id"] = outcome.txn_id
    if outcome.spawn:
        ok["spawn"] = [
            command_document(command, command.idem_key or f"{op_id}:{number}")
            for number, command in enumerate(outcome.spawn)
        ]
    return ok
