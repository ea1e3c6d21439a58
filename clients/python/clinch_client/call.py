"""What a handler gets."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Callable, Coroutine, Dict, Optional

from .model import Delivery, Json

Save = Callable[[Json], Coroutine[Any, Any, None]]


class Call:
    """An attempt: what a handler gets."""

    def __init__(
        self,
        delivery: Delivery,
        save: Save,
        from_thread: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._delivery = delivery
        self._save = save
        self._from_thread = from_thread
        #: An operator asked to cancel the operation: make no further call.
        self.cancel_requested = False
        #: Another worker may have the operation now. An ok of this attempt still counts.
        self.lease_lost = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.op_id} attempt {self.attempt}>"

    @property
    def op_id(self) -> str:
        return self._delivery.op_id

    @property
    def domain(self) -> str:
        return self._delivery.command.domain

    @property
    def event_type(self) -> str:
        return self._delivery.command.event_type

    @property
    def biz_key(self) -> str:
        return self._delivery.command.biz_key

    @property
    def idem_key(self) -> str:
        """The key of the caller. Send ``outbound_key`` to the provider, not this one."""
        return self._delivery.command.idem_key

    @property
    def payload(self) -> Json:
        return self._delivery.command.payload

    @property
    def labels(self) -> Dict[str, str]:
        return self._delivery.command.labels

    @property
    def outbound_key(self) -> str:
        """The idempotency key for the provider: the same in every attempt."""
        return self._delivery.outbound_key

    @property
    def attempt(self) -> int:
        """The number of this call, from 1."""
        return self._delivery.attempt

    @property
    def deadline(self) -> Optional[datetime]:
        """No attempt begins after this time."""
        return self._delivery.deadline

    @property
    def checkpoint(self) -> Json:
        """What an earlier attempt saved; None: nothing."""
        return self._delivery.checkpoint

    @property
    def traceparent(self) -> Optional[str]:
        return self._delivery.traceparent

    def save_checkpoint(self, value: Json) -> None:
        """Keeps any JSON for the next attempt."""
        self._from_thread(self._save(value))


class AsyncCall(Call):
    """An attempt: what an ``async`` handler gets."""

    async def save_checkpoint(self, value: Json) -> None:  # type: ignore[override]
        """Keeps any JSON for the next attempt."""
        await self._save(value)
