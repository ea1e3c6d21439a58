"""How a handler ends an attempt: return a value or :class:`Done`, or raise one of the others."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Dict, Optional, Sequence, Union

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
    and otherwise held for an operator. ``after``: no attempt before this many seconds have passed;
    what is not a time counts as left out.
    """

    def __init__(
        self,
        reason: str,
        *,
        applied: str = "unknown",
        after: Union[float, timedelta, None] = None,
    ) -> None:
        if applied not in ("no", "unknown"):
            raise ValueError("applied is 'no' or 'unknown'")
        super().__init__(reason)
        self.reason = str(reason)
        self.applied = applied
        self.after = _seconds(after)


class Unknown(Retry):
    """It is unknown whether the provider applied the call: a timeout, or a broken connection."""

    def __init__(self, reason: str, *, after: Union[float, timedelta, None] = None) -> None:
        super().__init__(reason, after=after)


class Fail(Exception):
    """The provider refused the call for good: the operation is FAILED, without an effect."""

    def __init__(self, code: str, message: str = "", *, cause: Optional[str] = None) -> None:
        super().__init__(f"{code}: {message}")
        # A provider's code is often a number.
        self.code = str(code)
        self.message = str(message)
        self.cause = None if cause is None else str(cause)


def document(outcome: Any, op_id: str) -> Dict[str, Json]:
    """The outcome for the API. A value that is none of the above is the payload of an ok."""
    if isinstance(outcome, Retry):
        retry: Dict[str, Json] = {
            "type": "retry",
            "reason": outcome.reason,
            "applied": outcome.applied,
        }
        if outcome.after is not None:
            retry["after_ms"] = round(outcome.after * 1000)
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
            command_document(
                replace(command, idem_key=f"{op_id}:{number}")
                if command.idem_key is None
                else command
            )
            for number, command in enumerate(outcome.spawn)
        ]
    return ok


def _seconds(after: Any) -> Optional[float]:
    """A time to wait. A mistake in it must not hide that the call was not applied."""
    try:
        seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
    except (TypeError, ValueError):
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
