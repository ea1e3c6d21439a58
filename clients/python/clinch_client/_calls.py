"""The calls of the API as steps. See :mod:`clinch_client._steps`."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from . import errors
from ._steps import WAIT_MAX, Pause, Steps, encode, request
from .model import Batch, BulkResult, Command, Operation, command_document, decode, time_text

T = TypeVar("T")

#: Operations of one bulk request.
BULK_MAX = 10_000
#: Bytes of one bulk request: a server takes 16 MiB unless it is told otherwise.
BULK_BYTES_MAX = 15 * 1024 * 1024
#: The longest pause between two looks at a batch.
BATCH_PAUSE_MAX = 1.0

Page = Tuple[List[T], Optional[str]]
Filters = Mapping[str, Union[str, datetime, None]]


def keyed(command: Command) -> Command:
    """The command with a key: every repeat of its request has the same one.

    A key that is empty stays empty, and the server refuses it: it was not left out on purpose.
    """
    if command.idem_key is not None:
        return command
    return replace(command, idem_key=str(uuid.uuid4()))


def submit(
    command: Command, *, wait: float, budget: float, traceparent: Optional[str] = None
) -> Steps[Operation]:
    command = keyed(command)
    until = time.monotonic() + wait
    op_id = None
    try:
        reply = yield from request(
            "submit",
            budget=budget,
            body=command_document(command),
            headers={"traceparent": traceparent} if traceparent else None,
            until=until,
        )
        operation = decode(Operation, reply.json())
        if operation.settled or wait <= WAIT_MAX:
            return operation
        op_id = operation.op_id
        return (yield from _settled_by(op_id, until, budget))
    except errors.ClinchError as error:
        error.idem_key = command.idem_key
        error.op_id = error.op_id or op_id
        raise


def get(op_id: str, *, budget: float, until: Optional[float] = None) -> Steps[Operation]:
    try:
        reply = yield from request("get", budget=budget, until=until, op_id=op_id)
    except errors.ClinchError as error:
        error.op_id = op_id
        raise
    return decode(Operation, reply.json())


def _settled_by(op_id: str, until: float, budget: float) -> Steps[Operation]:
    while True:
        began = time.monotonic()
        operation = yield from get(op_id, until=until, budget=budget)
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
    commands = [keyed(command) for command in commands]
    # Before the first request: a payload that is not JSON must not be found in the middle.
    documents = [encode(command_document(command)) for command in commands]
    results: List[BulkResult] = []
    try:
        for body in _bodies(documents):
            if batch_id is None:
                reply = yield from request("bulk", budget=budget, body=body)
            else:
                reply = yield from request(
                    "add_to_batch", budget=budget, body=body, batch_id=batch_id
                )
            results += [decode(BulkResult, one) for one in reply.members("results")]
    except errors.ClinchError as error:
        error.commands, error.results, error.batch_id = commands, results, batch_id
        raise
    return results


def _bodies(documents: Sequence[bytes]) -> Iterator[bytes]:
    """Bulk requests that are neither too many nor too long."""
    part: List[bytes] = []
    length = 0
    for document in documents:
        if part and (len(part) == BULK_MAX or length + len(document) > BULK_BYTES_MAX):
            yield b'{"operations":[' + b",".join(part) + b"]}"
            part, length = [], 0
        part.append(document)
        length += len(document) + 1
    if part:
        yield b'{"operations":[' + b",".join(part) + b"]}"


def open_batch(
    batch_id: Optional[str], on_complete: Optional[Command], *, budget: float
) -> Steps[Batch]:
    batch_id = str(uuid.uuid4()) if batch_id is None else batch_id
    body: Dict[str, Any] = {"batch_id": batch_id}
    if on_complete is not None:
        if on_complete.idem_key is None:
            # The same for the same batch: who opens it again opens the same one.
            on_complete = replace(on_complete, idem_key=f"{batch_id}:complete")
        body["on_complete"] = command_document(on_complete)
    try:
        reply = yield from request("open_batch", budget=budget, body=body)
    except errors.ClinchError as error:
        error.batch_id = batch_id
        raise
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
