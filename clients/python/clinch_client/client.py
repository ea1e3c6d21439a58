"""The blocking client."""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from datetime import datetime
from types import TracebackType
from typing import Iterator, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

from . import _calls
from ._address import CONNECT_TIMEOUT, IDLE_MAX, Address
from ._steps import ANSWER_BYTES_MAX, Broken, Outcome, Pause, Reply, Send, Steps
from .model import Batch, BulkResult, Command, Json, Operation

T = TypeVar("T")

#: Idle connections that a client keeps; threads beyond that open new ones.
IDLE_CONNECTIONS_MAX = 16


class Client:
    """A client that blocks. Threads may share one; connections are kept alive.

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
        self._address = Address.of(url, api_key, tls)
        self._budget = budget
        self._idle: List[Tuple[float, http.client.HTTPConnection]] = []
        self._lock = threading.Lock()

    def submit(
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
        return self._perform(steps)

    def call(
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
        operation = self.submit(
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

    def submit_many(
        self, commands: Sequence[Command], *, budget: Optional[float] = None
    ) -> List[BulkResult]:
        """Submits operations, 10,000 in one commit, and does not wait for them.

        The results are in the order of the commands. A refused command fails alone. An error has
        what was accepted before it in ``results``, and in ``commands`` all of them with their
        keys: submitting those again has the effect of submitting them once.
        """
        return self._perform(_calls.bulk(commands, batch_id=None, budget=self._of(budget)))

    def get(self, op_id: str, *, budget: Optional[float] = None) -> Operation:
        """The operation as it is now."""
        return self._perform(_calls.get(op_id, budget=self._of(budget)))

    def wait(
        self, op_id: str, *, timeout: float = 60.0, budget: Optional[float] = None
    ) -> Operation:
        """Waits until an operation is settled. Raises :class:`NotSettled` after ``timeout``."""
        return self._perform(_calls.wait(op_id, timeout=timeout, budget=self._of(budget)))

    def operations(
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
    ) -> Iterator[Operation]:
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
            page, cursor = self._perform(steps)
            yield from page
            if cursor is None:
                return

    def cancel(
        self, op_id: str, reason: Optional[str] = None, *, budget: Optional[float] = None
    ) -> Operation:
        """Allows no further call. An attempt that is running ends first."""
        return self._perform(_calls.cancel(op_id, reason=reason, budget=self._of(budget)))

    def open_batch(
        self, *, batch_id: Optional[str] = None, on_complete: Optional[Command] = None
    ) -> Batch:
        """Opens a batch. ``on_complete`` is accepted in the commit that completes the batch."""
        return self._perform(_calls.open_batch(batch_id, on_complete, budget=self._budget))

    def add_to_batch(self, batch_id: str, commands: Sequence[Command]) -> List[BulkResult]:
        """Submits operations as members of a batch."""
        return self._perform(_calls.bulk(commands, batch_id=batch_id, budget=self._budget))

    def seal_batch(self, batch_id: str) -> Batch:
        """Ends the batch: it takes no more members."""
        return self._perform(_calls.seal_batch(batch_id, budget=self._budget))

    def batch(self, batch_id: str) -> Batch:
        """The batch as it is now."""
        return self._perform(_calls.get_batch(batch_id, budget=self._budget))

    def wait_batch(self, batch_id: str, *, timeout: float = 60.0) -> Batch:
        """Waits until every member of a sealed batch is settled."""
        return self._perform(_calls.wait_batch(batch_id, timeout=timeout, budget=self._budget))

    def batches(self, *, page_size: Optional[int] = None) -> Iterator[Batch]:
        """Batches, newest first, page by page while you iterate."""
        cursor: Optional[str] = None
        while True:
            steps = _calls.batch_page(cursor=cursor, limit=page_size, budget=self._budget)
            page, cursor = self._perform(steps)
            yield from page
            if cursor is None:
                return

    def close(self) -> None:
        """Closes idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def _of(self, budget: Optional[float]) -> float:
        return self._budget if budget is None else budget

    def _perform(self, steps: Steps[T]) -> T:
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                outcome = None
            else:
                outcome = self._send(step)

    def _send(self, send: Send) -> Union[Reply, Broken]:
        headers = self._address.headers(send.headers, send.body is not None)
        connection = None
        try:
            connection = self._connection(send.timeout)
            connection.request(send.method, self._address.prefix + send.target, send.body, headers)
            response = connection.getresponse()
            body = response.read(ANSWER_BYTES_MAX + 1)
            if response.length and len(body) <= ANSWER_BYTES_MAX:
                raise http.client.IncompleteRead(body, response.length)
        except (OSError, http.client.HTTPException) as error:
            if connection is not None:
                connection.close()
            return Broken(type(error).__name__)
        except BaseException:
            # An interrupt in the middle of an answer: the rest must not be read by the next call.
            if connection is not None:
                connection.close()
            raise
        if response.will_close or not response.isclosed():
            connection.close()
        else:
            self._keep(connection)
        if len(body) > ANSWER_BYTES_MAX:
            return Broken("the answer is too long")
        lower = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, lower, body)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        now = time.monotonic()
        with self._lock:
            while self._idle:
                since, connection = self._idle.pop()
                if now - since < IDLE_MAX and connection.sock is not None:
                    connection.sock.settimeout(timeout)
                    return connection
                connection.close()
        host, port, tls = self._address.host, self._address.port, self._address.tls
        if tls is None:
            connection = http.client.HTTPConnection(host, port, timeout=CONNECT_TIMEOUT)
        else:
            connection = http.client.HTTPSConnection(
                host, port, timeout=CONNECT_TIMEOUT, context=tls
            )
        connection.connect()
        connection.sock.settimeout(timeout)
        return connection

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < IDLE_CONNECTIONS_MAX:
                self._idle.append((time.monotonic(), connection))
                return
        connection.close()
