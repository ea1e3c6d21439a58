"""The client for asyncio."""

from __future__ import annotations

import asyncio
import ssl
from datetime import datetime
from types import TracebackType
from typing import AsyncIterator, List, Mapping, Optional, Sequence, Type, TypeVar

from . import _calls
from ._address import Address
from ._http import Connections
from ._steps import Outcome, Pause, Steps
from .model import Batch, BulkResult, Command, Json, Operation

T = TypeVar("T")


class AsyncClient:
    """A client for asyncio. The tasks of one event loop may share one.

    ``budget`` is how long, in seconds, a request is repeated while the server cannot be reached
    or answers 429 or 503, from the first failure. Repeats carry the same keys and have the effect
    of one request.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:7070",
        api_key: Optional[str] = None,
        *,
        budget: float = 30.0,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._connections = Connections(Address.of(url, api_key, tls))
        self._budget = budget

    async def submit(
        self,
        domain: str,
        event_type: str,
        biz_key: str,
        payload: Json = None,
        *,
        idem_key: Optional[str] = None,
        wait: float = 2.0,
        budget: Optional[float] = None,
        run_at: Optional[datetime] = None,
        deadline: Optional[datetime] = None,
        priority: Optional[int] = None,
        labels: Optional[Mapping[str, str]] = None,
        traceparent: Optional[str] = None,
    ) -> Operation:
        """Submits an operation and waits up to ``wait`` seconds until it is settled.

        Without ``idem_key`` a new key is made up; an error has it. Pass your own key where your
        program may call this again for the same thing: after a crash, or after it gave up waiting
        in another way than by ``wait`` and ``budget``.
        """
        command = Command(
            domain, event_type, biz_key, payload, idem_key, run_at, deadline, priority, labels
        )
        budget = self._of(budget)
        steps = _calls.submit(command, wait=wait, budget=budget, traceparent=traceparent)
        return await self._perform(steps)

    async def call(
        self,
        domain: str,
        event_type: str,
        biz_key: str,
        payload: Json = None,
        *,
        idem_key: Optional[str] = None,
        timeout: float = 60.0,
        budget: Optional[float] = None,
        labels: Optional[Mapping[str, str]] = None,
        traceparent: Optional[str] = None,
    ) -> Json:
        """Submits an operation and returns the payload of its result.

        Raises :class:`OperationFailed`, or :class:`NotSettled` after ``timeout`` seconds; Clinch
        keeps working on the operation then. Raises :class:`ResultPruned` if an operation with
        this key ended so long ago that its result is no longer stored.
        """
        operation = await self.submit(
            domain,
            event_type,
            biz_key,
            payload,
            idem_key=idem_key,
            wait=timeout,
            budget=budget,
            labels=labels,
            traceparent=traceparent,
        )
        return operation.value()

    async def submit_many(
        self, commands: Sequence[Command], *, budget: Optional[float] = None
    ) -> List[BulkResult]:
        """Submits operations, 10,000 in one commit, and does not wait for them.

        The results are in the order of the commands. A refused command fails alone. An error has
        what was accepted before it in ``results``, and in ``commands`` all of them with their
        keys: submitting those again has the effect of submitting them once.
        """
        return await self._perform(_calls.bulk(commands, batch_id=None, budget=self._of(budget)))

    async def get(self, op_id: str, *, budget: Optional[float] = None) -> Operation:
        """The operation as it is now."""
        return await self._perform(_calls.get(op_id, budget=self._of(budget)))

    async def wait(
        self, op_id: str, *, timeout: float = 60.0, budget: Optional[float] = None
    ) -> Operation:
        """Waits until an operation is settled. Raises :class:`NotSettled` after ``timeout``."""
        return await self._perform(_calls.wait(op_id, timeout=timeout, budget=self._of(budget)))

    async def operations(
        self,
        *,
        domain: Optional[str] = None,
        event_type: Optional[str] = None,
        biz_key: Optional[str] = None,
        idem_key: Optional[str] = None,
        provider_txn_id: Optional[str] = None,
        state: Optional[str] = None,
        phase: Optional[str] = None,
        label: Optional[str] = None,
        batch_id: Optional[str] = None,
        destination: Optional[str] = None,
        code: Optional[str] = None,
        accepted_from: Optional[datetime] = None,
        accepted_before: Optional[datetime] = None,
        page_size: Optional[int] = None,
    ) -> AsyncIterator[Operation]:
        """Operations, newest first, page by page while you iterate."""
        filters: _calls.Filters = {
            "domain": domain,
            "event_type": event_type,
            "biz_key": biz_key,
            "idem_key": idem_key,
            "provider_txn_id": provider_txn_id,
            "state": state,
            "phase": phase,
            "label": label,
            "batch_id": batch_id,
            "destination": destination,
            "code": code,
            "from": accepted_from,
            "to": accepted_before,
        }
        cursor: Optional[str] = None
        while True:
            steps = _calls.page(filters, cursor=cursor, limit=page_size, budget=self._budget)
            page, cursor = await self._perform(steps)
            for one in page:
                yield one
            if cursor is None:
                return

    async def cancel(
        self, op_id: str, reason: Optional[str] = None, *, budget: Optional[float] = None
    ) -> Operation:
        """Allows no further call. An attempt that is running ends first."""
        return await self._perform(_calls.cancel(op_id, reason=reason, budget=self._of(budget)))

    async def open_batch(
        self, *, batch_id: Optional[str] = None, on_complete: Optional[Command] = None
    ) -> Batch:
        """Opens a batch. ``on_complete`` is accepted in the commit that completes the batch."""
        return await self._perform(_calls.open_batch(batch_id, on_complete, budget=self._budget))

    async def add_to_batch(self, batch_id: str, commands: Sequence[Command]) -> List[BulkResult]:
        """Submits operations as members of a batch."""
        return await self._perform(_calls.bulk(commands, batch_id=batch_id, budget=self._budget))

    async def seal_batch(self, batch_id: str) -> Batch:
        """Ends the batch: it takes no more members."""
        return await self._perform(_calls.seal_batch(batch_id, budget=self._budget))

    async def batch(self, batch_id: str) -> Batch:
        """The batch as it is now."""
        return await self._perform(_calls.get_batch(batch_id, budget=self._budget))

    async def wait_batch(self, batch_id: str, *, timeout: float = 60.0) -> Batch:
        """Waits until every member of a sealed batch is settled."""
        return await self._perform(
            _calls.wait_batch(batch_id, timeout=timeout, budget=self._budget)
        )

    async def batches(self, *, page_size: Optional[int] = None) -> AsyncIterator[Batch]:
        """Batches, newest first, page by page while you iterate."""
        cursor: Optional[str] = None
        while True:
            steps = _calls.batch_page(cursor=cursor, limit=page_size, budget=self._budget)
            page, cursor = await self._perform(steps)
            for one in page:
                yield one
            if cursor is None:
                return

    async def close(self) -> None:
        """Closes idle connections."""
        self._connections.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()

    def _of(self, budget: Optional[float]) -> float:
        return self._budget if budget is None else budget

    async def _perform(self, steps: Steps[T]) -> T:
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                outcome = None
            else:
                outcome = await self._connections.send(step)
