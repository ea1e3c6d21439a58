"""The calls of a worker: lease, heartbeat, checkpoint, release and outcome."""

from __future__ import annotations

from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from . import errors
from ._steps import Reply, Steps, milliseconds, request
from .model import Delivery, Json, LeaseState, decode


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
    def report(body: Mapping[str, Json]) -> Steps[Reply]:
        return request("outcome", budget=budget, body=body, patient=True, op_id=delivery.op_id)

    body = {**_attempt(delivery), "worker": worker, **document}
    try:
        reply = yield from report(body)
    except errors.InvalidRequest:
        # What happened at the provider counts, even without what was said about it.
        least = ("type", "provider_txn_id", "applied", "code")
        told = {name: document[name] for name in least if name in document}
        if told == document:
            raise
        reply = yield from report({**_attempt(delivery), "worker": worker, **told})
    return decode(LeaseState, reply.json())


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
