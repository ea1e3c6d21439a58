"""The clients and the worker on a real server, whose address is in ``CLINCH_URL``.

The server has the routes of ``crates/cli/tests/clients/routes.toml``.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import unittest
import uuid
from datetime import datetime, timezone
from typing import Any, Dict, List

import clinch_client as clinch

URL = os.environ["CLINCH_URL"]
#: A server with API keys, and a key that may only submit.
LOCKED_URL = os.environ["CLINCH_LOCKED_URL"]
SUBMIT_KEY = os.environ["CLINCH_SUBMIT_KEY"]


def new() -> str:
    return uuid.uuid4().hex


class OnServer(unittest.TestCase):
    def setUp(self) -> None:
        self.client = clinch.Client(URL)
        self.addCleanup(self.client.close)

    def working(self, handlers: Dict[str, Any], **options: Any) -> clinch.Worker:
        """A worker in a thread of its own, stopped with the test."""
        worker = clinch.Worker(URL, **options)
        for name, handler in handlers.items():
            worker.handle(*name.split("/"))(handler)
        thread = threading.Thread(target=worker.run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(worker.stop)
        return worker

    def until(self, op_id: str, **members: Any) -> clinch.Operation:
        """Waits until the operation has these members."""
        until = time.monotonic() + 30
        while True:
            found = self.client.get(op_id)
            if all(getattr(found, name) == value for name, value in members.items()):
                return found
            self.assertLess(time.monotonic(), until, found)
            time.sleep(0.02)


class Submitting(OnServer):
    def test_the_same_key_is_the_same_operation(self) -> None:
        key = new()
        first = self.client.submit("spare", "x", "b", 1, idem_key=key, wait=0)
        self.assertEqual(self.client.submit("spare", "x", "b", 1, idem_key=key, wait=0), first)
        with self.assertRaises(clinch.IdempotencyMismatch) as caught:
            self.client.submit("spare", "x", "b", 2, idem_key=key, wait=0)
        self.assertEqual(caught.exception.op_id, first.op_id)
        other = self.client.submit("spare", "x", "b", 1, wait=0)
        self.assertNotEqual(other.op_id, first.op_id)

    def test_options_arrive(self) -> None:
        at = datetime(2100, 1, 1, tzinfo=timezone.utc)
        trace = "00-65dbeda5f1c7e95f0d82249706e5a52b-8a6a157caff9daa9-01"
        found = self.client.submit(
            "spare", "x", "b", wait=0, run_at=at, priority=3, labels={"a": "b"}, traceparent=trace
        )
        self.assertEqual((found.run_at, found.priority, found.labels), (at, 3, {"a": "b"}))
        self.assertEqual(found.trace_id, trace.split("-")[1])

    def test_what_does_not_settle_in_time_goes_on(self) -> None:
        found = self.client.submit("spare", "x", "b", wait=0.05)
        self.assertFalse(found.settled)
        with self.assertRaises(clinch.NotSettled) as caught:
            self.client.wait(found.op_id, timeout=0.05)
        assert caught.exception.operation is not None
        self.assertEqual(caught.exception.operation.op_id, found.op_id)
        self.assertIsInstance(caught.exception, TimeoutError)

    def test_cancel_ends_an_operation_and_may_be_repeated(self) -> None:
        op_id = self.client.submit("spare", "x", "b", wait=0).op_id
        for _ in range(2):
            canceled = self.client.cancel(op_id, "not needed")
            with self.assertRaises(clinch.OperationFailed) as caught:
                canceled.value()
            self.assertEqual(caught.exception.code, "canceled")

    def test_errors_have_types(self) -> None:
        with self.assertRaises(clinch.NotFound):
            self.client.get(str(uuid.uuid4()))
        with self.assertRaises(clinch.UnknownRoute):
            self.client.submit("nowhere", "x", "b")
        with self.assertRaises(clinch.InvalidRequest) as caught:
            self.client.submit("spare", "x", "")
        self.assertEqual(caught.exception.field, "biz_key")
        with self.assertRaises(clinch.PayloadTooLarge):
            self.client.submit("spare", "x", "b", "x" * 300_000)
        with clinch.Client(LOCKED_URL) as stranger, self.assertRaises(clinch.Unauthorized):
            stranger.get("x")
        with clinch.Client(LOCKED_URL, SUBMIT_KEY) as submitting:
            op_id = submitting.submit("spare", "x", "b", wait=0).op_id
            with self.assertRaises(clinch.Forbidden):
                submitting.cancel(op_id)

    def test_lists_are_read_to_their_end(self) -> None:
        key = new()
        commands = [clinch.Command("spare", "x", key, number) for number in range(7)]
        results = self.client.submit_many([*commands, clinch.Command("spare", "x", "")])
        with self.assertRaises(clinch.InvalidRequest):
            results.pop().accepted()
        accepted = {result.accepted() for result in results}
        listed = list(self.client.operations(biz_key=key, page_size=2))
        self.assertEqual({one.op_id for one in listed}, accepted)
        none = self.client.operations(biz_key=key, state="FAILED")
        self.assertEqual(list(none), [])

    def test_a_batch_completes_once(self) -> None:
        self.working({"payments/charge": lambda call: call.payload})
        end = clinch.Command("payments", "charge", new(), "end")
        batch = self.client.open_batch(on_complete=end)
        commands = [clinch.Command("payments", "charge", new(), number) for number in range(3)]
        self.client.add_to_batch(batch.batch_id, commands)
        self.assertEqual(self.client.batch(batch.batch_id).total, 3)
        with self.assertRaises(clinch.NotSettled):
            self.client.wait_batch(batch.batch_id, timeout=0.0)
        self.client.seal_batch(batch.batch_id)
        done = self.client.wait_batch(batch.batch_id)
        self.assertEqual((done.completed, done.failed), (3, 0))
        self.assertIn(batch.batch_id, [one.batch_id for one in self.client.batches(page_size=1)])
        ends = list(self.client.operations(biz_key=end.biz_key))
        self.assertEqual(len(ends), 1)

    def test_on_asyncio(self) -> None:
        self.working({"payments/charge": lambda call: call.payload["amount"]})

        async def calls() -> List[Any]:
            async with clinch.AsyncClient(URL) as client:
                key = new()
                work = [client.call("payments", "charge", key, {"amount": n}) for n in range(20)]
                results = await asyncio.gather(*work)
                listed = [one.op_id async for one in client.operations(biz_key=key, page_size=6)]
                self.assertEqual(len(listed), 20)
                return results

        self.assertEqual(asyncio.run(calls()), list(range(20)))


class Working(OnServer):
    def test_outcomes(self) -> None:
        attempts: List[int] = []
        spawned = new()

        def charge(call: clinch.Call) -> Any:
            attempts.append(call.attempt)
            what = call.payload
            if what == "done":
                spawn = [clinch.Command("spare", "x", spawned)]
                return clinch.Done({"rows": 3}, txn_id="tx_9", spawn=spawn)
            if what == "retry" and call.attempt == 1:
                raise clinch.Retry("busy", applied="no", after=0.01)
            if what == "fail":
                raise clinch.Fail("card_declined", "no money", cause="51")
            if what == "unknown":
                raise clinch.Unknown("the connection broke")
            if what == "bug":
                raise ValueError("password")
            if what == "not json":
                return object()
            if what == "too large":
                return "x" * 20_000_000
            return [call.biz_key, call.outbound_key[:4], call.domain, call.event_type]

        self.working({"payments/transfer": charge})

        def settle(what: str) -> clinch.Operation:
            return self.client.submit("payments", "transfer", "b-1", what, wait=30)

        done = settle("done")
        assert done.result is not None
        self.assertEqual((done.result.provider_txn_id, done.value()), ("tx_9", {"rows": 3}))
        self.assertEqual(len(list(self.client.operations(biz_key=spawned))), 1)
        attempts.clear()
        self.assertEqual(settle("retry").value(), ["b-1", "ck1_", "payments", "transfer"])
        self.assertEqual(attempts, [1, 2])
        failure = settle("fail").failure
        assert failure is not None
        self.assertEqual(
            (failure.code, failure.message, failure.cause), ("card_declined", "no money", "51")
        )
        # The call was made: an answer that cannot be sent does not change that.
        self.assertIsNone(settle("not json").value())
        self.assertIsNone(settle("too large").value())
        # An unsafe route: what may have been applied is not called again.
        for what in ("unknown", "bug"):
            op_id = self.client.submit("payments", "transfer", "b-1", what, wait=0).op_id
            held = self.until(op_id, phase="held")
            assert held.hold is not None and held.last_error is not None
            self.assertEqual(held.hold.reason, "effect_unknown")
            self.assertNotIn("password", held.last_error.message)
            self.assertIn({"unknown": "broke", "bug": "ValueError"}[what], held.last_error.message)

    def test_a_checkpoint_is_there_in_the_next_attempt(self) -> None:
        async def charge(call: clinch.AsyncCall) -> Any:
            if call.attempt == 1:
                self.assertIsNone(call.checkpoint)
                await call.save_checkpoint({"page": 3})
                raise clinch.Retry("later", applied="no", after=0.01)
            return call.checkpoint

        def transfer(call: clinch.Call) -> Any:
            if call.attempt == 1:
                call.save_checkpoint([1])
                raise clinch.Retry("later", applied="no", after=0.01)
            return call.checkpoint

        self.working({"payments/charge": charge, "payments/transfer": transfer})
        self.assertEqual(self.client.call("payments", "charge", "b"), {"page": 3})
        self.assertEqual(self.client.call("payments", "transfer", "b"), [1])

    def test_a_handler_may_take_longer_than_the_lease(self) -> None:
        beaten = threading.Event()

        def charge(call: clinch.Call) -> Any:
            # An operator's cancel comes with a heartbeat; three leases are over by then.
            self.client.cancel(call.op_id, "enough")
            until = time.monotonic() + 30
            while not call.cancel_requested and time.monotonic() < until:
                time.sleep(0.05)
            beaten.wait(3.5)
            return [call.cancel_requested, call.lease_lost]

        self.working({"payments/transfer": charge}, lease=1.0)
        found = self.client.submit("payments", "transfer", "b", wait=30)
        self.assertEqual((found.value(), found.attempts), ([True, False], 1))

    def test_no_more_handlers_run_at_once_than_allowed(self) -> None:
        lock = threading.Lock()
        running = 0
        most = 0

        def charge(_: clinch.Call) -> None:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.01)
            with lock:
                running -= 1

        self.working({"payments/charge": charge}, concurrency=3)
        key = new()
        self.client.submit_many([clinch.Command("payments", "charge", key) for _ in range(30)])
        for one in list(self.client.operations(biz_key=key)):
            self.client.wait(one.op_id)
        self.assertIn(most, (2, 3))

    def test_stop_lets_a_running_handler_end_and_leaves_the_rest(self) -> None:
        began = threading.Event()
        may_end = threading.Event()

        def transfer(call: clinch.Call) -> str:
            began.set()
            may_end.wait(30)
            return "done"

        worker = clinch.Worker(URL, concurrency=1)
        worker.handle("payments", "transfer")(transfer)
        thread = threading.Thread(target=worker.run)
        thread.start()
        first = self.client.submit("payments", "transfer", "b", wait=0).op_id
        began.wait(30)
        second = self.client.submit("payments", "transfer", "b", wait=0).op_id
        worker.stop()
        may_end.set()
        thread.join(30)
        self.assertFalse(thread.is_alive())
        self.assertEqual(self.client.wait(first).value(), "done")
        self.assertEqual(self.client.get(second).state, "PENDING")
        self.client.cancel(second)

    def test_a_handler_that_does_not_end_is_cancelled_and_reported_as_unknown(self) -> None:
        async def scene() -> None:
            began = asyncio.Event()

            async def transfer(_: clinch.AsyncCall) -> None:
                began.set()
                await asyncio.sleep(3600)

            worker = clinch.Worker(URL, stop_within=0.1)
            worker.handle("payments", "transfer")(transfer)
            serving = asyncio.ensure_future(worker.serve())
            async with clinch.AsyncClient(URL) as client:
                op_id = (await client.submit("payments", "transfer", "b", wait=0)).op_id
                await asyncio.wait_for(began.wait(), 30)
                worker.stop()
                await asyncio.wait_for(serving, 30)
                found = await client.get(op_id)
            assert found.hold is not None
            self.assertEqual((found.phase, found.hold.reason), ("held", "effect_unknown"))

        asyncio.run(scene())

    def test_a_worker_says_what_is_wrong_with_its_configuration(self) -> None:
        worker = clinch.Worker(URL)
        with self.assertRaises(ValueError):
            worker.run()
        worker.handle("nowhere", "x")(lambda call: None)
        with self.assertRaises(clinch.UnknownRoute):
            worker.run()
        with self.assertRaises(ValueError):
            worker.handle("nowhere", "x")(lambda call: None)
        stranger = clinch.Worker(LOCKED_URL)
        stranger.handle("spare")(lambda call: None)
        with self.assertRaises(clinch.Unauthorized):
            stranger.run()
