"""The calls of a worker: lease, heartbeat, checkpoint, release and outcome."""

from __future__ import annotations

import logging
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from . import errors
from ._steps import Reply, Steps, milliseconds, request
from .model import Delivery, Json, LeaseState, decode

#: What is changed in a refused report, one after the other; None: the part is left out. The
#: operations that follow an ok go last: they are work, the rest is words. The server leaves out a
#: null among them, names it and alerts.
_LESS: Dict[str, Sequence[Mapping[str, Json]]] = {
    "ok": (
        {"payload": None},
        {"spawn": [None]},
        {"payload": None, "spawn": [None]},
        {"payload": None, "spawn": None},
    ),
    "retry": ({"reason": None}, {"reason": None, "after_ms": None}),
    "fail": ({"message": None, "cause": None},),
}

_log = logging.getLogger("clinch_client")


def lease(
    domain: str,
    event_types: Optional[Sequence[str]],
    *,
    most: int,
    wait: float,
    length: float,
    worker: str,
) -> Steps[Tuple[List[Delivery], float]]:
    """The deliveries, and the length of their shortest lease."""
    body: Dict[str, Any] = {
        "domain": domain,
        "max": most,
        "wait": milliseconds(wait),
        "lease": milliseconds(length),
        "worker": worker,
    }
    if event_types is not None:
        body["event_types"] = list(event_types)
    reply = yield from request("lease", budget=0.0, body=body, wait=wait)
    deliveries = [decode(Delivery, one) for one in reply.members("deliveries")]
    lengths = [_length(reply, delivery.lease_until, length) for delivery in deliveries]
    return deliveries, min(lengths, default=length)


def heartbeat(delivery: Delivery, *, length: float) -> Steps[Tuple[LeaseState, float]]:
    """The state, and the length of the lease from now."""
    body = {**_attempt(delivery), "lease": milliseconds(length)}
    # The next heartbeat is the repeat.
    budget = min(length / 3, 5.0)
    reply = yield from request(
        "heartbeat", budget=budget, body=body, patient=True, op_id=delivery.op_id
    )
    state = decode(LeaseState, reply.json())
    return state, _length(reply, state.lease_until, length)


def checkpoint(delivery: Delivery, value: Json, *, budget: float) -> Steps[None]:
    body = {**_attempt(delivery), "checkpoint": value}
    yield from request("checkpoint", budget=budget, body=body, op_id=delivery.op_id)


def release(delivery: Delivery, *, worker: str, budget: float) -> Steps[None]:
    body = {**_attempt(delivery), "worker": worker}
    yield from request("release", budget=budget, body=body, patient=True, op_id=delivery.op_id)


def outcome(
    delivery: Delivery, document: Mapping[str, Json], *, worker: str, budget: float
) -> Steps[LeaseState]:
    """Reports an outcome. Where the server refuses it: with as little less as it takes.

    What happened at the provider counts, even without what was said about it.
    """
    told, less = document, _less(document)
    while True:
        body = {**_attempt(delivery), "worker": worker, **told}
        try:
            reply = yield from request(
                "outcome", budget=budget, body=body, patient=True, op_id=delivery.op_id
            )
            return decode(LeaseState, reply.json())
        except errors.InvalidRequest as error:
            changes = next(less, None)
            if changes is None:
                raise
            kept = {name: part for name, part in document.items() if name not in changes}
            told = {**kept, **{name: part for name, part in changes.items() if part is not None}}
            refused = f"{delivery.op_id}: the {document['type']} was refused: {error}"
            _log.error("%s; it is reported without %s", refused, ", ".join(changes))


def _less(document: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    """The changes that make a difference to this document."""
    made: List[Mapping[str, Json]] = []
    for one in _LESS[str(document["type"])]:
        changes = {name: part for name, part in one.items() if document.get(name) is not None}
        if changes and changes not in made:
            made.append(changes)
            yield changes


def _attempt(delivery: Delivery) -> Dict[str, Any]:
    return {"fence": delivery.fence, "token": delivery.token}


def _length(reply: Reply, until: Optional[datetime], asked: float) -> float:
    """The length of a lease: a route may allow less than was asked for.

    Measured by the server's own clock, which may differ from ours. The header is in whole
    seconds, so a lease may seem to be up to a second longer than it is.
    """
    date = reply.headers.get("date")
    if date is None or until is None:
        return asked
    try:
        length = (until - parsedate_to_datetime(date)).total_seconds()
    except (TypeError, ValueError):
        return asked
    return max(0.1, min(asked, length))
