"""The calls of the API as steps. See :mod:`clinch_client._steps`."""

from __future__ import annotations

import time
import uuid
from datetime import datetime
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from . import errors
from ._steps import Pause, Steps, request
from .model import Batch, BulkResult, Command, Operation, command_document, decode, time_text

T = TypeVar("T")

#: The longest wait that the server allows.
WAIT_MAX = 60.0
#: Operations of one bulk request.
BULK_MAX = 10_000
#: The longest pause between two looks at a batch.
BATCH_PAUSE_MAX = 1.0

Page = Tuple[List[T], Optional[str]]
Filters = Mapping[str, Union[str, datetime, None]]


def milliseconds(seconds: float) -> str:
    """A duration for the API."""
    return f"{max(0, round(seconds * 1000))}ms"


def submit(
    command: Command, *, wait: float, budget: float, traceparent: Optional[str] = None
) -> Steps[Operation]:
    # Made up once: every repeat of the request has the same key.
    idem_key = command.idem_key or str(uuid.uuid4())
    first = min(wait, WAIT_MAX)
    until = time.monotonic() + wait
    reply = yield from request(
        "submit",
        budget=budget,
        body=command_document(command, idem_key),
        query={"wait": milliseconds(first)},
        headers={"traceparent": traceparent} if traceparent else None,
        wait=first,
    )
    operation = decode(Operation, reply.json())
    if operation.settled or wait <= WAIT_MAX:
        return operation
    return (yield from _settled_by(operation.op_id, until, budget))


def get(op_id: str, *, wait: float, budget: float) -> Steps[Operation]:
    wait = min(wait, WAIT_MAX)
    query = {"wait": milliseconds(wait)} if wait > 0 else None
    reply = yield from request("get", budget=budget, query=query, wait=wait, op_id=op_id)
    return decode(Operation, reply.json())


def _settled_by(op_id: str, until: float, budget: float) -> Steps[Operation]:
    while True:
        left = until - time.monotonic()
        began = time.monotonic()
        operation = yield from get(op_id, wait=max(left, 0), budget=budget)
        if operation.settled or time.monotonic() >= until:
            return operation
        # A server that stops answers at once: do not ask in a tight loop.
        if time.monotonic() - began < 0.05:
            yield Pause(min(0.2, max(until - time.monotonic(), 0)))


def wait(op_id: str, *, timeout: float, budget: float) -> Steps[Operation]:
    operation = yield from _settled_by(op_id, time.monotonic() + timeout, budget)
    if not operation.settled:
        message = f"{op_id} is {operation.state} after {timeout:g} s; Clinch keeps working on it"
        raise errors.NotSettled(message, operation)
    return operation


def cancel(op_id: str, *, reason: Optional[str], budget: float) -> Steps[Operation]:
    reply = yield from request("cancel", budget=budget, body={"reason": reason}, op_id=op_id)
    return decode(Operation, reply.json())


def page(
    filters: Filters, *, cursor: Optional[str], limit: Optional[int], budget: float
) -> Steps[Page[Operation]]:
    query: Dict[str, Any] = {
        name: time_text(value) if isinstance(value, datetime) else value
        for name, value in filters.items()
    }
    query.update(cursor=cursor, limit=limit)
    reply = yield from request("list", budget=budget, query=query)
    operations = [decode(Operation, one) for one in reply.members("operations")]
    return operations, reply.json().get("next_cursor")


def bulk(
    commands: Sequence[Command], *, batch_id: Optional[str], budget: float
) -> Steps[List[BulkResult]]:
    documents = [
        command_document(command, command.idem_key or str(uuid.uuid4())) for command in commands
    ]
    results: List[BulkResult] = []
    for start in range(0, len(documents), BULK_MAX):
        body = {"operations": documents[start : start + BULK_MAX]}
        if batch_id is None:
            reply = yield from request("bulk", budget=budget, body=body)
        else:
            reply = yield from request("add_to_batch", budget=budget, body=body, batch_id=batch_id)
        results += [decode(BulkResult, one) for one in reply.members("results")]
    return results


def open_batch(
    batch_id: Optional[str], on_complete: Optional[Command], *, budget: float
) -> Steps[Batch]:
    body: Dict[str, Any] = {"batch_id": batch_id or str(uuid.uuid4())}
    if on_complete is not None:
        idem_key = on_complete.idem_key or str(uuid.uuid4())
        body["on_complete"] = command_document(on_complete, idem_key)
    reply = yield from request("open_batch", budget=budget, body=body)
    return decode(Batch, reply.json())


def get_batch(batch_id: str, *, budget: float) -> Steps[Batch]:
    reply = yield from request("get_batch", budget=budget, batch_id=batch_id)
    return decode(Batch, reply.json())


def seal_batch(batch_id: str, *, budget: float) -> Steps[Batch]:
    reply = yield from request("seal_batch", budget=budget, body={}, batch_id=batch_id)
    return decode(Batch, reply.json())


def wait_batch(batch_id: str, *, timeout: float, budget: float) -> Steps[Batch]:
    until = time.monotonic() + timeout
    pause = 0.05
    while True:
        batch = yield from get_batch(batch_id, budget=budget)
        if batch.complete:
            return batch
        left = until - time.monotonic()
        if left <= 0:
            done = batch.completed + batch.failed
            message = f"batch {batch_id}: {done} of {batch.total} settled after {timeout:g} s"
            raise errors.NotSettled(message)
        yield Pause(min(pause, left))
        pause = min(pause * 2, BATCH_PAUSE_MAX)


def batch_page(*, cursor: Optional[str], limit: Optional[int], budget: float) -> Steps[Page[Batch]]:
    query = {"cursor": cursor, "limit": limit}
    reply = yield from request("list_batches", budget=budget, query=query)
    batches = [decode(Batch, one) for one in reply.members("batches")]
    return batches, reply.json().get("next_cursor")
