"""What a worker reports to a server that does not answer as it should."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
import time
import unittest
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from email.utils import format_datetime
from typing import Any, Dict, List, Set
from unittest import mock

import clinch_client as clinch
from clinch_client import _leases, _steps, worker
from clinch_client._steps import Reply

from .fake import CUT, Answer, Fake, problem

DELIVERY: Dict[str, Any] = {
    "op_id": "01a1dfbf-a9df-753e-bce0-d521b957f77b",
    "fence": 1,
    "token": "3f2504e04f8941d39a0c0305e82c3301",
    "lease_until": None,
    "attempt": 1,
    "outbound_key": "ck1_x",
    "deadline": None,
    "checkpoint": None,
    "traceparent": None,
    "command": {
        "domain": "payments",
        "event_type": "charge",
        "biz_key": "r-1",
        "idem_key": "1",
        "payload": {"amount": 1},
        "run_at": None,
        "deadline": None,
        "priority": 0,
        "labels": {},
    },
}
STATE = {
    "op_id": DELIVERY["op_id"],
    "state": "COMPLETED",
    "phase": None,
    "fence": 1,
    "cancel_requested": False,
    "lease_until": None,
}


def ok(document: Any) -> Answer:
    return 200, {}, json.dumps(document).encode()


class Reports(unittest.TestCase):
    def report(self, handler: Any, *answers: Answer, **options: Any) -> List[Any]:
        """Runs one attempt; the reports that the server got. The answers are those to reports."""
        left = list(answers)
        leased: List[str] = []

        def answer(path: str) -> Answer:
            if path == "/v1/leases":
                leased.append(path)
                return ok({"deliveries": [DELIVERY] if len(leased) == 1 else []})
            if left:
                return left.pop(0)
            running.stop()
            return ok(STATE)

        with Fake(answer) as fake, mock.patch.object(worker, "POLL", 0.05):
            running = clinch.Worker(fake.url, **options)
            running.handle("payments", "charge")(handler)
            thread = threading.Thread(target=running.run)
            thread.start()
            thread.join(60)
            self.assertFalse(thread.is_alive())
            reports = [one for one in fake.requests if one[1] != "/v1/leases"]
            return [(path.rsplit("/", 1)[1], body) for _, path, body in reports]

    def test_an_ok_is_offered_until_it_is_taken(self) -> None:
        broken = problem(500, "internal")
        reports = self.report(lambda call: 7, broken, problem(503, "unavailable"), broken)
        self.assertEqual(len(reports), 4)
        for what, body in reports:
            self.assertEqual((what, body["type"], body["payload"]), ("outcome", "ok", 7))
            self.assertEqual((body["fence"], body["token"]), (1, DELIVERY["token"]))

    def test_an_ok_that_cannot_be_written_is_an_ok(self) -> None:
        for result in (object(), float("nan"), clinch.Done({1: object()}, txn_id="tx_9")):
            ((what, body),) = self.report(lambda call, result=result: result)
            self.assertEqual((what, body["type"]), ("outcome", "ok"))
            self.assertIsNone(body["payload"])
            txn_id = "tx_9" if isinstance(result, clinch.Done) else None
            self.assertEqual(body.get("provider_txn_id"), txn_id)

    def test_only_what_cannot_be_written_is_left_out_of_an_ok(self) -> None:
        cycle: List[Any] = []
        cycle.append(cycle)
        mail = clinch.Command("payments", "mail", "r-1", 7)
        strange: Any = "no command"
        broken = clinch.Command("payments", "mail", "r-1", object())
        alone: Any = mail
        number: Any = object()
        # What the handler returned; its payload, txn_id and spawned payloads as they are sent.
        cases: List[Any] = [
            (clinch.Done({"amount": Decimal("1.0")}, "t", [mail]), (None, "t", [7]), "payload"),
            (clinch.Done(cycle, "t", [mail, mail]), (None, "t", [7, 7]), "payload"),
            (clinch.Done(1, number, [mail]), (1, None, [7]), "provider_txn_id"),
            (clinch.Done(1, "t", [broken, mail]), (1, "t", [None, 7]), "spawn[0]"),
            (clinch.Done(1, "t", [mail, strange]), (1, "t", [7, None]), "spawn[1]"),
            (clinch.Done(1, "t", alone), (1, "t", [None]), "spawn"),
        ]
        for done, told, left_out in cases:
            with self.assertLogs("clinch_client", "ERROR") as log:
                ((what, body),) = self.report(lambda call, done=done: done)
            self.assertEqual((what, body["type"]), ("outcome", "ok"))
            spawn = [one and one["payload"] for one in body["spawn"]]
            self.assertEqual((body["payload"], body.get("provider_txn_id"), spawn), told)
            self.assertTrue(log.output[0].endswith(f"not JSON: {left_out}"), log.output)
            # The keys do not depend on what else can be written.
            for number, one in enumerate(body["spawn"]):
                if one is not None:
                    self.assertEqual(one["idem_key"], f"{DELIVERY['op_id']}:{number}")

    def test_answers_that_are_not_of_the_server_lose_no_outcome(self) -> None:
        refused = problem(401, "unauthenticated")
        strangers: List[Answer] = [
            (404, {}, b""),
            (302, {}, b""),
            (400, {}, b"<html>"),
            (200, {}, b"<html>"),
        ]
        reports = self.report(lambda call: 7, *strangers, refused)
        self.assertEqual([body["payload"] for _, body in reports], [7] * 6)

    def test_a_refused_report_is_sent_again_with_what_counts(self) -> None:
        mail = clinch.Command("payments", "mail", "r-1", 7, "mail-1")
        # What the handler returned; the members of each report beside the type, until one is
        # taken or none is left.
        cases: List[Any] = [
            (
                clinch.Done(1, txn_id="tx_9", spawn=[mail]),
                [
                    ["payload", "provider_txn_id", "spawn"],
                    ["provider_txn_id", "spawn"],
                    ["payload", "provider_txn_id", "spawn: null"],
                    ["provider_txn_id", "spawn: null"],
                    ["provider_txn_id"],
                ],
            ),
            (
                clinch.Done(1, txn_id="tx_9"),
                [["payload", "provider_txn_id"], ["provider_txn_id"]],
            ),
            (
                clinch.Done(spawn=[mail]),
                [["payload", "spawn"], ["payload", "spawn: null"], ["payload"]],
            ),
            (
                clinch.Retry("why", applied="no", after=5),
                [["after_ms", "applied", "reason"], ["after_ms", "applied"], ["applied"]],
            ),
            (clinch.Fail("declined", "why", cause="x"), [["cause", "code", "message"], ["code"]]),
        ]
        refused = [problem(400, "invalid_request"), problem(413, "payload_too_large")] * 2
        for outcome, reports in cases:
            for taken in range(1, len(reports) + 1):
                made = self.report(lambda call, o=outcome: o, *refused[: taken - 1])
                known = {"fence", "token", "worker", "type"}
                told = [sorted(self.named(body) - known) for _, body in made]
                self.assertEqual(told, reports[:taken])
        with self.assertLogs("clinch_client", "ERROR") as log:
            self.report(lambda call: clinch.Done(1, spawn=[mail]), *refused)
        lost = [line.rsplit("without ", 1)[-1] for line in log.output]
        self.assertEqual(lost, ["payload", "spawn", "payload, spawn", "payload, spawn"])

    @staticmethod
    def named(body: Dict[str, Any]) -> Set[str]:
        """The members of a report; a null in place of the operations that follow is told."""
        return {f"{one}: null" if body[one] == [None] else one for one in body}

    def test_a_mistake_in_a_time_or_a_code_changes_no_outcome(self) -> None:
        times: Dict[Any, Any] = {
            "5": 5000,
            -3: 0,
            timedelta(seconds=2): 2000,
            "soon": None,
            float("nan"): None,
            float("inf"): None,
            1e300: 10**12,
        }
        for after, told in times.items():
            retry = clinch.Retry("x", applied="no", after=after)
            ((_, body),) = self.report(lambda call, retry=retry: retry)
            self.assertEqual((body["applied"], body.get("after_ms")), ("no", told))
        number: Any = 402
        ((_, body),) = self.report(lambda call: clinch.Fail(number, number, cause=number))
        self.assertEqual((body["code"], body["message"], body["cause"]), ("402", "402", "402"))

    def test_what_a_handler_leaves_undone_is_unknown(self) -> None:
        async def charge(_: Any) -> int:
            raise AssertionError("never awaited")

        def steps(_: Any) -> Any:
            yield 1

        for result in (charge, steps):
            for undone in (
                lambda call, result=result: result(call),
                lambda call, result=result: clinch.Done(result(call)),
                lambda call, result=result: result,
                lambda call: ValueError("password"),
            ):
                ((what, body),) = self.report(undone)
                told = (what, body["type"], body["applied"])
                self.assertEqual(told, ("outcome", "retry", "unknown"))
                self.assertNotIn("password", json.dumps(body))

        async def forgets(call: clinch.AsyncCall) -> Any:
            return charge(call)

        ((_, body),) = self.report(forgets)
        self.assertEqual((body["type"], body["applied"]), ("retry", "unknown"))

    def test_generators_are_no_handlers(self) -> None:
        def steps(_: Any) -> Any:
            yield 1

        async def stream(_: Any) -> Any:
            yield 1

        for handler in (steps, stream):
            with self.assertRaises(TypeError):
                clinch.Worker().handle("a")(handler)

    def test_an_object_may_be_a_handler(self) -> None:
        class Charge:
            async def __call__(self, call: clinch.AsyncCall) -> int:
                assert isinstance(call, clinch.AsyncCall)
                return 7

        ((_, body),) = self.report(Charge())
        self.assertEqual((body["type"], body["payload"]), ("ok", 7))

    def test_a_handler_that_cannot_be_called_is_reported(self) -> None:
        async def no_argument() -> int:
            return 7

        async def exits(_: clinch.AsyncCall) -> None:
            raise SystemExit(1)

        async def interrupts(_: clinch.AsyncCall) -> None:
            raise KeyboardInterrupt

        for handler in (no_argument, exits, interrupts):
            ((_, body),) = self.report(handler)
            self.assertEqual((body["type"], body["applied"]), ("retry", "unknown"))

    def test_a_heartbeat_that_hangs_is_not_waited_for(self) -> None:
        began = time.monotonic()
        told: List[bool] = []

        def answer(path: str) -> Answer:
            if path == "/v1/leases":
                leased.append(path)
                return ok({"deliveries": [DELIVERY] if len(leased) == 1 else []})
            if path.endswith("/heartbeat"):
                beats.append(time.monotonic() - began)
                if not told:
                    time.sleep(30)
                return ok(STATE)
            running.stop()
            return ok(STATE)

        def handler(call: clinch.Call) -> int:
            # The lease is one second long. Nothing but the worker's own clock can tell.
            while not call.lease_lost:
                time.sleep(0.01)
            told.append(True)
            # Once the server answers again, the lease is known to be this worker's.
            while call.lease_lost:
                time.sleep(0.01)
            return 7

        leased: List[str] = []
        beats: List[float] = []
        with Fake(answer) as fake, mock.patch.object(worker, "POLL", 0.05):
            running = clinch.Worker(fake.url, lease=1.0)
            running.handle("payments", "charge")(handler)
            thread = threading.Thread(target=running.run)
            thread.start()
            thread.join(60)
            self.assertFalse(thread.is_alive())
        self.assertGreaterEqual(len(beats), 2)

    def test_handlers_end_in_time_beside_a_lease_that_hangs(self) -> None:
        late = {**DELIVERY, "fence": 2}
        hangs, reported = threading.Event(), threading.Event()

        def answer(path: str) -> Answer:
            if path != "/v1/leases":
                # The lease answers when the handler has ended.
                reported.set()
                return ok(STATE)
            leases.append(path)
            if len(leases) > 1:
                hangs.set()
                reported.wait(60)
            return ok({"deliveries": [late if len(leases) > 1 else DELIVERY]})

        async def charge(_: clinch.AsyncCall) -> None:
            await asyncio.get_running_loop().run_in_executor(None, hangs.wait, 60)
            running.stop()
            await asyncio.sleep(3600)

        leases: List[str] = []
        with Fake(answer) as fake, mock.patch.object(_steps, "ANSWER_GRACE", 3600.0):
            running = clinch.Worker(fake.url, stop_within=0.01)
            running.handle("payments", "charge")(charge)
            thread = threading.Thread(target=running.run)
            thread.start()
            thread.join(30)
            reported.set()
            thread.join(60)
            made = [one for one in fake.requests if one[1] != "/v1/leases"]
        told = [(path.rsplit("/", 1)[1], body["fence"], body.get("type")) for _, path, body in made]
        # What the lease brought after all was not begun, and is given back.
        self.assertEqual(told, [("outcome", 1, "retry"), ("release", 2, None)])

    def test_a_handler_that_does_not_end_does_not_keep_a_worker(self) -> None:
        async def ignores(_: clinch.AsyncCall) -> None:
            while not may_end.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    running.stop()
                    await asyncio.sleep(0.01)

        async def waits(_: clinch.AsyncCall) -> None:
            running.stop()
            await asyncio.get_running_loop().run_in_executor(None, may_end.wait, 60)

        def blocks(_: clinch.Call) -> None:
            running.stop()
            may_end.wait(60)

        for handler in (ignores, waits, blocks):
            may_end = threading.Event()
            leases = [DELIVERY]

            def answer(path: str, leases: List[Any] = leases) -> Answer:
                if path != "/v1/leases":
                    return ok(STATE)
                return ok({"deliveries": [leases.pop()] if leases else []})

            short = mock.patch.multiple(worker, POLL=0.05, LAST_WORDS=0.05, UNWIND=0.05)
            with Fake(answer) as fake, short:
                running = clinch.Worker(fake.url, stop_within=0.01)
                running.handle("payments", "charge")(handler)
                thread = threading.Thread(target=running.run)
                thread.start()
                thread.join(15)
                has_ended = not thread.is_alive()
                may_end.set()
                thread.join(60)
            self.assertTrue(has_ended, handler)

    def test_a_worker_does_not_run_in_an_event_loop_of_somebody_else(self) -> None:
        async def scene() -> None:
            with self.assertRaises(RuntimeError):
                clinch.Worker().run()

        asyncio.run(scene())

    def test_a_lease_that_hangs_does_not_keep_a_worker(self) -> None:
        asked, may_answer = threading.Event(), threading.Event()

        def answer(path: str) -> Answer:
            asked.set()
            may_answer.wait(60)
            return ok({"deliveries": []})

        patient = mock.patch.object(_steps, "ANSWER_GRACE", 3600.0)
        short = mock.patch.multiple(worker, POLL=0.05, LAST_WORDS=0.05)
        with Fake(answer) as fake, patient, short:
            running = clinch.Worker(fake.url)
            running.handle("payments", "charge")(lambda call: None)
            thread = threading.Thread(target=running.run)
            thread.start()
            asked.wait(60)
            running.stop()
            thread.join(15)
            has_ended = not thread.is_alive()
            may_answer.set()
            thread.join(60)
        self.assertTrue(has_ended)

    def test_the_text_of_an_exception_is_not_reported(self) -> None:
        def handler(_: clinch.Call) -> None:
            raise ValueError("password")

        ((_, body),) = self.report(handler)
        self.assertEqual((body["type"], body["applied"]), ("retry", "unknown"))
        self.assertNotIn("password", json.dumps(body))

    def test_an_exception_may_refuse_to_become_text(self) -> None:
        class Silent(Exception):
            def __str__(self) -> str:
                raise ValueError("no text")

        def handler(_: clinch.Call) -> None:
            raise Silent

        ((_, body),) = self.report(handler, expose_errors=True)
        told = (body["type"], body["applied"], body["reason"])
        self.assertEqual(told, ("retry", "unknown", "the handler raised Silent"))

    def test_a_handler_without_a_thread_made_no_call(self) -> None:
        start = threading.Thread.start

        def refuses(thread: threading.Thread) -> None:
            if thread.name.startswith("clinch "):
                raise RuntimeError("can't start new thread")
            start(thread)

        with mock.patch.object(threading.Thread, "start", refuses):
            ((_, body),) = self.report(lambda call: 7)
        self.assertEqual((body["type"], body["applied"]), ("retry", "no"))

    def test_no_call_is_made_for_a_lease_that_is_over(self) -> None:
        # Every look at a clock is an hour later: a process that was suspended. The monotonic clock
        # stands still while the machine sleeps.
        called: List[str] = []
        for stands_still in (0, 1):
            hours = itertools.count(0, 3600)

            def now(hours: Any = hours, at: int = stands_still) -> Any:
                hour = float(next(hours))
                return (hour, 0.0) if at else (0.0, hour)

            with mock.patch.object(worker, "_now", now):
                ((what, _),) = self.report(lambda call: called.append(call.op_id))
            self.assertEqual((what, called), ("release", []))

    def test_a_clock_that_is_set_back_loses_no_work(self) -> None:
        hours = itertools.count(0, -3600)
        with mock.patch.object(worker, "_now", lambda: (0.0, float(next(hours)))):
            ((what, body),) = self.report(lambda call: 7)
        self.assertEqual((what, body["payload"]), ("outcome", 7))

    def test_a_lease_is_as_long_as_the_server_says(self) -> None:
        now = datetime(2026, 11, 15, 15, 0, tzinfo=timezone.utc)
        reply = Reply(200, {"date": format_datetime(now, usegmt=True)}, b"")
        cases = {2: 2.0, 30: 30.0, 600: 30.0, -5: 0.1}
        for seconds, expected in cases.items():
            until = now + timedelta(seconds=seconds)
            self.assertEqual(_leases._length(reply, until, 30.0), expected)
        self.assertEqual(_leases._length(Reply(200, {}, b""), now, 30.0), 30.0)
        self.assertEqual(_leases._length(reply, None, 30.0), 30.0)

    def test_a_server_that_is_not_clinch_ends_the_worker(self) -> None:
        for answer in ((200, {}, b"<html>"), ok([]), ok({})):
            with Fake(answer) as fake:
                running = clinch.Worker(fake.url)
                running.handle("payments")(lambda call: None)
                with self.assertRaises(clinch.ClinchError):
                    running.run()

    def test_a_worker_outlives_what_stands_before_its_server_for_a_moment(self) -> None:
        strangers: List[Answer] = [(200, {}, b"<html>"), (403, {}, b""), (404, {}, b"")]
        leases: List[str] = []

        def answer(path: str) -> Answer:
            leases.append(path)
            if len(leases) > 1 and strangers:
                return strangers.pop(0)
            if not strangers:
                running.stop()
            return ok({"deliveries": []})

        with Fake(answer) as fake, mock.patch.object(worker, "POLL", 0.05):
            running = clinch.Worker(fake.url)
            running.handle("payments")(lambda call: None)
            running.run()
        self.assertEqual(strangers, [])

    def test_a_lease_asks_for_little_after_an_answer_was_lost(self) -> None:
        answers: List[Answer] = [CUT, CUT, problem(503, "unavailable"), problem(500, "internal")]

        def answer(_: str) -> Answer:
            if answers:
                return answers.pop(0)
            if len(fake.requests) == 8:
                running.stop()
            return ok({"deliveries": []})

        with Fake(answer) as fake, mock.patch.object(worker, "PAUSE_MAX", 0.01):
            running = clinch.Worker(fake.url)
            running.handle("payments")(lambda call: None)
            running.run()
        asked = [body["max"] for _, _, body in fake.requests]
        # Each success doubles it.
        self.assertEqual(asked, [8, 1, 1, 1, 1, 2, 4, 8])
