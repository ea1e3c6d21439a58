"""A worker that executes operations of routes with ``remote = true``."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import os
import signal
import socket
import ssl
import threading
import time
import traceback
from typing import (
    Any,
    Awaitable,
    Callable,
    Coroutine,
    Dict,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypeVar,
    Union,
)

from . import _leases, errors, outcomes
from ._address import Address
from ._http import Connections
from ._steps import PAUSE_FIRST, PAUSE_MAX, Outcome, Pause, Steps, encode
from .call import AsyncCall, Call
from .model import Delivery, Json

T = TypeVar("T")

#: How long a lease waits for work. Also how long an idle worker takes to stop, at a server that
#: answers: a lease that is under way is heard out, and what it brings is given back.
POLL = 2.0
#: How long an outcome is offered to a server that does not answer. An ok is taken however late.
REPORT_BUDGET = 600.0
#: How long a worker that stops tries to give back what it did not begin, and to report.
LAST_WORDS = 5.0
#: How long what runs beside the worker has to end when it is cancelled.
UNWIND = 1.0

_log = logging.getLogger("clinch_client")

#: A time on two clocks. The first stands still while the machine sleeps, the second may be set.
_Time = Tuple[float, float]


def _now() -> _Time:
    return time.monotonic(), time.time()


def _since(then: _Time) -> float:
    """The seconds since then, on the clock that counted more."""
    return max(now - before for now, before in zip(_now(), then))


Handler = Union[Callable[[Call], Any], Callable[[AsyncCall], Awaitable[Any]]]
H = TypeVar("H", bound=Handler)


class _Slots:
    """The attempts that a domain has room for."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.changed = asyncio.Event()

    def give_back(self) -> None:
        self.free += 1
        self.changed.set()


class Worker:
    """Leases operations, gives them to handlers and reports how they ended.

    - ``concurrency``: handlers at once, for each domain.
    - ``lease``: seconds after which the server gives up a worker that was killed. While a handler
      runs, the worker extends the lease three times as often.
    - ``stop_within``: seconds that running handlers have to end after SIGTERM or :meth:`stop`,
      also if the server does not answer. A lease that is under way then has 7 seconds to bring
      what is to be given back, and reports have 5 more.
    - ``expose_errors``: the text of an unexpected exception goes into the log and to the server.
      By default only its type does, because the text may hold secrets.

    ``def`` handlers run in threads, ``async def`` handlers in the event loop. What a handler leaves
    undone is not taken for done: a coroutine that it returns and nobody awaited, a generator, a
    function or an exception counts as unknown.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:7070",
        api_key: Optional[str] = None,
        *,
        concurrency: int = 8,
        lease: float = 30.0,
        name: Optional[str] = None,
        stop_within: float = 20.0,
        expose_errors: bool = False,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        if lease < 1:
            raise ValueError("lease must be at least 1 second")
        self._address = Address.of(url, api_key, tls)
        self._concurrency = min(concurrency, 1000)
        self._lease = lease
        self._name = name or f"python-{socket.gethostname()[:40]}-{os.getpid()}"
        self._stop_within = stop_within
        self._expose_errors = expose_errors
        self._handlers: Dict[str, Dict[str, Handler]] = {}
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._stop_asked = False

    def handle(self, domain: str, event_type: str = "*") -> Callable[[H], H]:
        """Declares the handler of an event type; ``*``: of all others of the domain."""

        def declare(handler: H) -> H:
            if _is_any(handler, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
                raise TypeError("a handler returns its result: it must not yield")
            known = self._handlers.setdefault(domain, {})
            if event_type in known:
                raise ValueError(f"{domain}/{event_type} has a handler already")
            known[event_type] = handler
            return handler

        return declare

    def run(self) -> None:
        """Works until SIGTERM, SIGINT or :meth:`stop`. A second signal ends it at once."""
        if _is_in_loop():
            raise RuntimeError("an event loop runs in this thread: use `await worker.serve()`")
        # Not `asyncio.run`: it waits without an end for a handler that ignores its cancellation,
        # and for a thread of `asyncio.to_thread` that does not return.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self._run())
        finally:
            try:
                loop.run_until_complete(_unwind())
            finally:
                asyncio.set_event_loop(None)
                loop.close()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        serving = asyncio.ensure_future(self.serve())
        signals = 0

        def on_signal() -> None:
            nonlocal signals
            signals += 1
            if signals == 1:
                self.stop()
            else:
                serving.cancel()

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                try:
                    loop.add_signal_handler(number, on_signal)
                except NotImplementedError:  # Windows
                    signal.signal(number, lambda *_: loop.call_soon_threadsafe(on_signal))
        try:
            await serving
        except asyncio.CancelledError:
            if signals < 2:
                raise

    def stop(self) -> None:
        """Stops leasing; :meth:`run` returns when the running handlers have ended.

        May be called from any thread.
        """
        self._stop_asked = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def serve(self) -> None:
        """Works until :meth:`stop`, within the running event loop."""
        if not self._handlers:
            raise ValueError("the worker has no handlers")
        # Python 3.9 binds these to the running event loop.
        self._stopping = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if self._stop_asked:
            self._stopping.set()
        self._connections = Connections(self._address)
        self._calls: Set[asyncio.Future[None]] = set()
        self._handling: Set[asyncio.Future[Any]] = set()
        leasing = [asyncio.ensure_future(self._work(domain)) for domain in self._handlers]
        for task in leasing:
            # One error ends them all: a wrong key or an unknown route.
            task.add_done_callback(lambda _: self._stopping.set())
        _log.info("worker %s: %s", self._name, ", ".join(sorted(self._handlers)))
        try:
            await self._stopping.wait()
            await self._finish(leasing)
            failed = [task.exception() for task in leasing if task.done()]
            for failure in filter(None, failed):
                raise failure
        finally:
            self._stopping.set()
            for unfinished in [*leasing, *self._calls, *self._handling]:
                unfinished.cancel()
            self._connections.close()

    async def _finish(self, leasing: Sequence[asyncio.Future[None]]) -> None:
        """Lets running attempts end, within the time that there is.

        A lease that is under way has its time beside theirs: a server that hangs must not delay
        the end of handlers. What it brings is given back.
        """

        def give_up() -> None:
            for handling in self._handling:
                handling.cancel()

        timer = asyncio.get_running_loop().call_later(self._stop_within, give_up)
        hearing = POLL + LAST_WORDS
        try:
            await self._ended(leasing, hearing)
            await self._ended((), self._stop_within - hearing)
        finally:
            timer.cancel()
        give_up()
        await self._ended((), LAST_WORDS)

    async def _ended(self, leasing: Sequence[asyncio.Future[None]], seconds: float) -> None:
        """Waits until these leases and all attempts have ended, for some seconds at most."""
        until = time.monotonic() + seconds
        while open_ones := {one for one in [*leasing, *self._calls] if not one.done()}:
            left = until - time.monotonic()
            if left <= 0:
                return
            await asyncio.wait(open_ones, timeout=left)

    async def _work(self, domain: str) -> None:
        """Leases operations of a domain while there is room for them."""
        slots = _Slots(self._concurrency)
        handlers = self._handlers[domain]
        event_types = None if "*" in handlers else list(handlers)
        pause = PAUSE_FIRST
        # Attempts of a lease whose answer is lost are held. After a failure little is asked for.
        most = self._concurrency
        has_leased = False
        while not self._stopping.is_set():
            if slots.free == 0:
                slots.changed.clear()
                await self._unless_stopping(slots.changed.wait())
                continue
            steps = _leases.lease(
                domain,
                event_types,
                most=min(most, slots.free),
                wait=POLL,
                length=self._lease,
                worker=self._name,
            )
            asked = _now()
            try:
                deliveries, length = await self._perform(steps)
            except errors.ClinchError as error:
                may_pass = isinstance(error, (errors.Unavailable, errors.ServerError))
                # Where Clinch has answered before, something else does for a moment.
                if not may_pass and (not has_leased or errors.is_of_clinch(error)):
                    raise
                if pause == PAUSE_FIRST:
                    _log.warning("%s; trying again", error)
                await self._unless_stopping(asyncio.sleep(max(pause, error.retry_after)))
                pause, most = min(pause * 2, PAUSE_MAX), 1
                continue
            pause, has_leased = PAUSE_FIRST, True
            most = min(most * 2, self._concurrency)
            for delivery in deliveries:
                slots.free -= 1
                attempt = asyncio.ensure_future(self._attempt(delivery, length, asked))
                self._calls.add(attempt)
                attempt.add_done_callback(lambda _: slots.give_back())
                attempt.add_done_callback(self._calls.discard)

    async def _unless_stopping(self, waiting: Coroutine[Any, Any, Any]) -> None:
        both = {asyncio.ensure_future(waiting), asyncio.ensure_future(self._stopping.wait())}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in both:
                one.cancel()

    async def _attempt(self, delivery: Delivery, length: float, asked: _Time) -> None:
        """One attempt from its lease to its report. Raises nothing.

        A process that was suspended since it ``asked`` makes no call for a lease that has certainly
        ended: the operation may have been resolved and called again meanwhile.
        """
        handlers = self._handlers.get(delivery.command.domain, {})
        handler = handlers.get(delivery.command.event_type) or handlers.get("*")
        if self._stopping.is_set() or handler is None or _since(asked) > POLL + length:
            release = _leases.release(delivery, worker=self._name, budget=LAST_WORDS)
            await self._reported(delivery, "release", release)
            return
        is_async = _is_any(handler, inspect.iscoroutinefunction)

        async def save(value: Json) -> None:
            await self._perform(_leases.checkpoint(delivery, value, budget=self._lease))

        kind = AsyncCall if is_async else Call
        call = kind(delivery, save, self._from_thread)
        beating = asyncio.ensure_future(self._beat(call, length))
        try:
            outcome = await self._outcome(handler, call)
            if outcome is None:
                return
            steps = _leases.outcome(delivery, outcome, worker=self._name, budget=REPORT_BUDGET)
            await self._reported(delivery, outcome["type"], steps)
        except asyncio.CancelledError:
            _log.error("%r was abandoned: the worker stopped before it was reported", call)
            raise
        finally:
            beating.cancel()

    async def _outcome(self, handler: Any, call: Call) -> Optional[Dict[str, Json]]:
        """Runs the handler. None: a thread still runs after the worker should have stopped."""
        handling: asyncio.Future[Any]
        if isinstance(call, AsyncCall):
            handling = asyncio.ensure_future(_in_loop(handler, call))
        else:
            try:
                handling = self._in_thread(handler, call)
            except RuntimeError:
                # The process may have no more threads. Nothing was called.
                _log.error("%r: its thread cannot be started", call)
                no_thread = outcomes.Retry("the worker cannot start a thread", applied="no")
                return outcomes.document(no_thread, call.op_id)
        self._handling.add(handling)
        try:
            await asyncio.wait({handling})
        finally:
            self._handling.discard(handling)
        if handling.cancelled():
            if not isinstance(call, AsyncCall):
                _log.error("%r was abandoned: its thread did not end in time", call)
                return None
            return outcomes.document(outcomes.Unknown("the handler was cancelled"), call.op_id)
        error = handling.exception()
        if error is None:
            return self._document(handling.result(), call)
        if isinstance(error, (outcomes.Retry, outcomes.Fail)):
            return self._document(error, call)
        return outcomes.document(outcomes.Unknown(self._said(error, call)), call.op_id)

    def _document(self, value: Any, call: Call) -> Dict[str, Json]:
        undone = _undone(value)
        if undone is not None:
            _log.error("%r: the handler returned %s", call, undone)
            value = outcomes.Unknown(f"the handler returned {undone}")
        if not isinstance(value, (outcomes.Retry, outcomes.Fail)):
            # The call was made: its ok counts, whatever cannot be written.
            done = value if isinstance(value, outcomes.Done) else outcomes.Done(value)
            document, left_out = outcomes.written(done, call.op_id)
            if left_out:
                what = ", ".join(left_out)
                _log.error("%r: the ok is reported without what is not JSON: %s", call, what)
            return document
        try:
            document = outcomes.document(value, call.op_id)
            encode(document)
            return document
        except Exception as error:  # whatever a handler returned
            _log.error("%r: the outcome is not JSON (%s)", call, type(error).__name__)
        return {"type": "retry", "applied": "unknown", "reason": "the outcome is not JSON"}

    def _said(self, error: BaseException, call: Call) -> str:
        """What may be said about an unexpected exception."""
        frames = traceback.extract_tb(error.__traceback__)
        place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
        said = f"the handler raised {type(error).__name__}"
        if self._expose_errors:
            _log.error("%r: %s", call, said, exc_info=error)
            # An exception may refuse to become text.
            with contextlib.suppress(Exception):
                return f"{said}: {error}"
            return said
        _log.error("%r: %s%s", call, said, place)
        return said

    def _in_thread(self, handler: Any, call: Call) -> asyncio.Future[Any]:
        """Runs a handler in a thread that does not keep the process alive."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def settle(value: Any, error: Optional[BaseException]) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

        def body() -> None:
            value: Any = None
            trouble: Optional[BaseException] = None
            try:
                value = context.run(handler, call)
            except StopIteration as error:
                # A future refuses this exception.
                trouble = RuntimeError(type(error).__name__)
            except BaseException as error:  # a thread must not lose what ended it
                trouble = error
            # Where the event loop has ended, the worker stopped before the handler did.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, value, trouble)

        threading.Thread(target=body, name=f"clinch {call.op_id}", daemon=True).start()
        return future

    async def _beat(self, call: Call, length: float) -> None:
        """Extends the lease until it is cancelled or the attempt is lost."""
        loop = asyncio.get_running_loop()

        def over() -> None:
            call.lease_lost = True
            _log.warning("%r: no heartbeat was answered within its lease", call)

        end = loop.call_later(length, over)
        pause = length / 3
        try:
            while True:
                await asyncio.sleep(pause)
                try:
                    steps = _leases.heartbeat(call._delivery, length=self._lease)
                    # One that hangs must not take the time of the next.
                    state, length = await asyncio.wait_for(self._perform(steps), length / 3)
                    end.cancel()
                    end = loop.call_later(length, over)
                    call.lease_lost, call.cancel_requested = False, state.cancel_requested
                    pause = length / 3
                except (errors.Conflict, errors.NotFound) as error:
                    call.lease_lost = True
                    _log.warning("%r lost its lease: %s", call, error)
                    return
                except Exception as error:  # the server may be back before the lease ends
                    pause = min(length / 3, 1.0)
                    if not isinstance(error, (errors.Unavailable, asyncio.TimeoutError)):
                        _log.warning("%r: no heartbeat: %s", call, type(error).__name__)
        finally:
            end.cancel()

    async def _reported(self, delivery: Delivery, what: str, steps: Steps[Any]) -> None:
        try:
            state = await self._perform(steps)
            if getattr(state, "left_out", None):
                left_out = ", ".join(state.left_out)
                _log.warning("%s: the server left out %s", delivery.op_id, left_out)
        except errors.StaleFence:
            _log.warning("%s: the %s came too late", delivery.op_id, what)
        except errors.ClinchError as error:
            _log.error("%s: the %s was not taken: %s", delivery.op_id, what, error)
        except Exception as error:  # an answer that nobody expected
            kind = type(error).__name__
            _log.error("%s: the answer to the %s cannot be read: %s", delivery.op_id, what, kind)

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

    def _from_thread(self, work: Coroutine[Any, Any, None]) -> None:
        if self._loop is None:
            raise RuntimeError("the worker does not run")
        asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _is_any(handler: Any, *kinds: Callable[[Any], bool]) -> bool:
    """Whether the handler, or an object's ``__call__``, is of one of the kinds."""
    called = getattr(handler, "__call__", None)  # noqa: B004
    return any(kind(handler) or kind(called) for kind in kinds)


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _unwind() -> None:
    """Ends what still runs in the event loop, or leaves it to its fate."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=UNWIND)
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.get_running_loop().shutdown_asyncgens(), UNWIND)


async def _in_loop(handler: Any, call: AsyncCall) -> Any:
    try:
        return await handler(call)
    except (KeyboardInterrupt, SystemExit) as error:
        # They would end the event loop, and with it every other attempt.
        raise RuntimeError(type(error).__name__) from error


def _undone(value: Any) -> Optional[str]:
    """What a handler returned instead of a result, because it did not do its work."""
    if isinstance(value, (outcomes.Retry, outcomes.Fail)):
        return None
    if isinstance(value, outcomes.Done):
        value = value.payload
    if inspect.iscoroutine(value):
        value.close()
    if inspect.isawaitable(value):
        return "a coroutine that nothing awaited: declare the handler with async def"
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        return "a generator: a handler must not yield"
    if isinstance(value, BaseException):
        return "an exception: it must be raised"
    if inspect.isroutine(value):
        return "a function that was not called"
    return None
