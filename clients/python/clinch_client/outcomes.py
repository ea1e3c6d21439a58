"""How a handler ends an attempt: return a value or :class:`Done`, or raise one of the others."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from ._steps import encode
from .model import Command, Json, command_document

#: The longest time to wait that is reported: the API takes a whole number of milliseconds.
AFTER_MAX = 1e9


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
    return written(outcome if isinstance(outcome, Done) else Done(outcome), op_id)[0]


def written(done: Done, op_id: str) -> Tuple[Dict[str, Json], List[str]]:
    """An ok for the API, and the names of its parts that are not JSON.

    Only these parts are left out: a result that cannot be written must not lose the operations
    that follow. An operation that cannot be written is sent as null, which the server leaves out
    like any other that it cannot read. So the server knows that one is missing, and alerts.
    """
    ok: Dict[str, Json] = {"type": "ok", "payload": done.payload}
    left_out: List[str] = []
    if not _is_json(done.payload):
        ok["payload"] = None
        left_out.append("payload")
    if not _is_json(done.txn_id):
        left_out.append("provider_txn_id")
    elif done.txn_id is not None:
        ok["provider_txn_id"] = done.txn_id
    try:
        commands = list(done.spawn or ())
    except Exception:  # not a sequence
        return {**ok, "spawn": [None]}, [*left_out, "spawn"]
    spawn = [_spawned(command, f"{op_id}:{number}") for number, command in enumerate(commands)]
    if spawn:
        ok["spawn"] = spawn
    left_out += [f"spawn[{number}]" for number, one in enumerate(spawn) if one is None]
    return ok, left_out


def _spawned(command: Command, idem_key: str) -> Optional[Dict[str, Json]]:
    """A command for the API. None: it cannot be written."""
    try:
        if command.idem_key is None:
            command = replace(command, idem_key=idem_key)
        document = command_document(command)
        return document if _is_json(document) else None
    except Exception:  # whatever a handler made of it
        return None


def _is_json(value: Any) -> bool:
    try:
        encode(value)
    except Exception:  # of any kind: also too deep, or an object that raises
        return False
    return True


def _seconds(after: Any) -> Optional[float]:
    """A time to wait. A mistake in it must not hide that the call was not applied."""
    try:
        seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
    except (TypeError, ValueError):
        return None
    return min(max(0.0, seconds), AFTER_MAX) if math.isfinite(seconds) else None
