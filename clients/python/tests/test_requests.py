"""What the clients send, and what they send again."""

from __future__ import annotations

import asyncio
import inspect
import json
import unittest
from typing import Any, Callable, Dict, List, Tuple, Type
from unittest import mock

import clinch_client as clinch
from clinch_client import _calls, _steps, errors

from .fake import CHUNKED, CUT, DROP, OPERATION, TO_THE_END, Answer, Fake, operation, problem

Perform = Callable[[str, str, Tuple[Any, ...]], Any]


def blocking(url: str, method: str, arguments: Tuple[Any, ...]) -> Any:
    with clinch.Client(url, "clk_secret", budget=5.0) as client:
        return getattr(client, method)(*arguments)


def on_asyncio(url: str, method: str, arguments: Tuple[Any, ...]) -> Any:
    async def run() -> Any:
        async with clinch.AsyncClient(url, "clk_secret", budget=5.0) as client:
            return await getattr(client, method)(*arguments)

    return asyncio.run(run())


#: A submit that needs no worker.
SUBMIT = ("submit", ("payments", "charge", "order-123", {"amount": 5}))


class Requests(unittest.TestCase):
    """Every case runs with both clients."""

    def each(self, *answers: Answer) -> List[Tuple[Perform, Fake]]:
        pairs: List[Tuple[Perform, Fake]] = []
        for perform in (blocking, on_asyncio):
            fake = Fake(*answers)
            fake.__enter__()
            self.addCleanup(fake.__exit__)
            pairs.append((perform, fake))
        return pairs

    def test_a_key_is_made_up_and_every_repeat_carries_it(self) -> None:
        busy = problem(503, "unavailable")
        for perform, fake in self.each(DROP, busy, CUT, operation()):
            found = perform(fake.url, *SUBMIT)
            self.assertEqual(found.value(), {"rows": 3})
            bodies = [body for _, _, body in fake.requests]
            self.assertEqual(len(bodies), 4)
            self.assertTrue(all(body == bodies[0] for body in bodies))
            self.assertEqual(len(bodies[0]["idem_key"]), 36)
            self.assertEqual(fake.headers[0]["authorization"], "Bearer clk_secret")

    def test_retry_after_is_followed(self) -> None:
        for perform, fake in self.each(problem(429, "shed", retry_after="1"), operation()):
            short = _steps.Pause(0.0)
            with mock.patch.object(_steps, "Pause", return_value=short) as pause:
                perform(fake.url, *SUBMIT)
            pause.assert_called_once_with(1.0)

    def test_the_budget_ends_the_repeats(self) -> None:
        for code, status, kind in (
            ("unavailable", 503, clinch.Unavailable),
            ("shed", 429, clinch.Throttled),
        ):
            for perform, fake in self.each(problem(status, code, retry_after="30")):
                with self.assertRaises(kind):
                    perform(fake.url, *SUBMIT)
                self.assertEqual(len(fake.requests), 1)

    def test_a_refusal_is_not_repeated_and_has_a_type(self) -> None:
        for code, kind in errors.BY_CODE.items():
            for perform, fake in self.each(problem(418, code)):
                with self.assertRaises(kind) as caught:
                    perform(fake.url, *SUBMIT)
                self.assertEqual(caught.exception.code, code)
                self.assertEqual(len(fake.requests), 1)

    def test_answers_of_a_proxy_have_types_too(self) -> None:
        kinds = {
            400: clinch.InvalidRequest,
            401: clinch.Unauthorized,
            413: clinch.PayloadTooLarge,
            500: clinch.ServerError,
        }
        for status, kind in kinds.items():
            for perform, fake in self.each((status, {}, b"<html>secret</html>")):
                with self.assertRaises(kind) as caught:
                    perform(fake.url, *SUBMIT)
                self.assertNotIn("secret", str(caught.exception))
        # They say nothing about the request: not even a 404 says that there is no operation.
        for status in (302, 404, 408, 502):
            for perform, fake in self.each((status, {}, b"<html>"), operation()):
                perform(fake.url, *SUBMIT)
                self.assertEqual(len(fake.requests), 2)

    def test_an_error_has_the_keys_that_were_made_up(self) -> None:
        command = clinch.Command("a", "b", "c")
        cases = (
            (SUBMIT, "idem_key"),
            (("call", SUBMIT[1]), "idem_key"),
            (("open_batch", ()), "batch_id"),
        )
        for (method, arguments), name in cases:
            for perform, fake in self.each(problem(503, "unavailable", retry_after="30")):
                with self.assertRaises(clinch.Unavailable) as caught:
                    perform(fake.url, method, arguments)
                key = getattr(caught.exception, name)
                self.assertEqual(fake.requests[0][2][name], key)
                if name == "idem_key":
                    self.assertIn(key, str(caught.exception))
        refused = problem(400, "invalid_command")
        for perform, fake in self.each(refused):
            with self.assertRaises(clinch.InvalidRequest) as refusal:
                perform(fake.url, "submit_many", ([command],))
            (again,) = refusal.exception.commands
            self.assertEqual(fake.requests[0][2]["operations"][0]["idem_key"], again.idem_key)

    def test_an_operation_that_is_lost_while_it_is_waited_for_has_its_id(self) -> None:
        open_still = operation(state="PENDING", result=None)
        with mock.patch.object(_calls, "WAIT_MAX", 0.01):
            for perform, fake in self.each(open_still, problem(400, "invalid_request")):
                with self.assertRaises(clinch.InvalidRequest) as caught:
                    perform(fake.url, "call", SUBMIT[1])
                self.assertEqual(caught.exception.op_id, OPERATION["op_id"])
                self.assertEqual(caught.exception.idem_key, fake.requests[0][2]["idem_key"])

    def test_results_before_an_error_are_kept(self) -> None:
        results = {"results": [{"status": 202, "op_id": "x"}] * 10_000}
        accepted: Answer = (200, {}, json.dumps(results).encode())
        commands = [clinch.Command("a", "b", str(number)) for number in range(10_001)]
        for perform, fake in self.each(accepted, problem(400, "invalid_request")):
            with self.assertRaises(clinch.ClinchError) as caught:
                perform(fake.url, "submit_many", (commands,))
            error = caught.exception
            self.assertEqual((len(error.results), len(error.commands)), (10_000, 10_001))
            sent = fake.requests[0][2]["operations"] + fake.requests[1][2]["operations"]
            self.assertEqual(
                [one["idem_key"] for one in sent], [c.idem_key for c in error.commands]
            )

    def test_an_empty_key_is_not_replaced(self) -> None:
        for perform, fake in self.each(problem(400, "invalid_command")):
            for method, arguments in (
                ("submit_many", ([clinch.Command("a", "b", "c", idem_key="")],)),
                ("add_to_batch", ("b", [clinch.Command("a", "b", "c", idem_key="")])),
            ):
                with self.assertRaises(clinch.InvalidRequest):
                    perform(fake.url, method, arguments)
                self.assertEqual(fake.requests[-1][2]["operations"][0]["idem_key"], "")

    def test_a_batch_that_is_opened_again_completes_with_the_same_operation(self) -> None:
        steps = [
            _calls.open_batch("b-1", clinch.Command("a", "b", "c"), budget=0.0) for _ in range(2)
        ]
        first, second = (next(one) for one in steps)
        assert isinstance(first, _steps.Send) and isinstance(second, _steps.Send)
        self.assertEqual(first.body, second.body)

    def test_the_budget_begins_with_the_first_failure(self) -> None:
        with mock.patch("time.monotonic", return_value=0.0) as clock:
            steps = _steps.request("submit", budget=30.0, body={}, until=60.0)
            first = next(steps)
            assert isinstance(first, _steps.Send)
            self.assertIn("wait=60000ms", first.target)
            clock.return_value = 45.0
            self.assertIsInstance(steps.send(_steps.Broken("EOFError")), _steps.Pause)
            clock.return_value = 46.0
            again = steps.send(None)
            assert isinstance(again, _steps.Send)
            # Asked to wait for what is left, so that the caller's time holds.
            self.assertIn("wait=14000ms", again.target)
            clock.return_value = 75.1
            with self.assertRaises(clinch.Unavailable):
                steps.send(_steps.Broken("EOFError"))

    def test_a_bulk_request_is_not_too_long(self) -> None:
        commands = [clinch.Command("a", "b", str(n), "x" * 4_000_000) for n in range(5)]
        steps = _calls.bulk(commands, batch_id=None, budget=0.0)
        lengths: List[int] = []
        outcome: Any = None
        try:
            while True:
                step = steps.send(outcome)
                assert isinstance(step, _steps.Send) and step.body
                lengths.append(len(step.body))
                count = len(json.loads(step.body)["operations"])
                results = [{"status": 202, "op_id": "x"}] * count
                outcome = _steps.Reply(200, {}, json.dumps({"results": results}).encode())
        except StopIteration as end:
            self.assertEqual(len(end.value), 5)
        self.assertEqual(len(lengths), 2)
        self.assertLess(max(lengths), 16 * 1024 * 1024)

    def test_payloads_are_in_no_representation(self) -> None:
        command = clinch.Command("a", "b", "c", {"card": "4111"})
        self.assertNotIn("4111", repr(command) + repr(clinch.Result(None, {"card": "4111"})))

    def test_a_server_that_is_not_there_is_unavailable(self) -> None:
        client = clinch.Client("http://127.0.0.1:1", budget=0.0)
        with self.assertRaises(clinch.Unavailable):
            client.get("x")

    def test_connections_are_used_again(self) -> None:
        with Fake(operation()) as fake:
            with clinch.Client(fake.url) as client:
                for _ in range(5):
                    client.get("x")

            async def gets() -> None:
                async with clinch.AsyncClient(fake.url) as client:
                    for _ in range(5):
                        await client.get("x")

            asyncio.run(gets())
            self.assertEqual((len(fake.requests), fake.connections), (10, 2))

    def test_bodies_without_a_length_are_read(self) -> None:
        for framing in (CHUNKED, TO_THE_END):
            answer: Answer = (framing, {}, json.dumps(OPERATION).encode())
            for perform, fake in self.each(answer):
                self.assertEqual(perform(fake.url, *SUBMIT).attempts, 1)
                self.assertEqual(len(fake.requests), 1)

    def test_unknown_members_are_ignored_and_times_are_read(self) -> None:
        for perform, fake in self.each(operation(new_member=1)):
            found = perform(fake.url, "get", ("a/b",))
            self.assertEqual(found.accepted_at.microsecond, 688_000)
            self.assertEqual(fake.requests[0][1], "/v1/operations/a%2Fb")

    def test_a_failed_operation_raises_and_an_open_one_does_too(self) -> None:
        failure = {"code": "card_declined", "message": "m", "cause": None, "effect": "none"}
        failed = operation(state="FAILED", failure=failure, result=None)
        for perform, fake in self.each(failed):
            with self.assertRaises(clinch.OperationFailed) as caught:
                perform(fake.url, "call", SUBMIT[1])
            self.assertEqual(
                (caught.exception.code, caught.exception.effect), ("card_declined", "none")
            )
        for perform, fake in self.each(operation(state="PENDING", result=None)):
            with self.assertRaises(clinch.NotSettled):
                perform(fake.url, "call", SUBMIT[1])

    def test_a_result_that_is_not_there_is_no_empty_result(self) -> None:
        empty = {"provider_txn_id": None, "payload": None}
        for perform, fake in self.each(operation(result=empty)):
            self.assertIsNone(perform(fake.url, "call", SUBMIT[1]))
        kinds: Dict[bool, Type[clinch.ClinchError]] = {
            True: clinch.ResultPruned,
            False: clinch.Unavailable,
        }
        for pruned, kind in kinds.items():
            for perform, fake in self.each(operation(result=None, pruned=pruned)):
                with self.assertRaises(kind) as caught:
                    perform(fake.url, "call", SUBMIT[1])
                told = (caught.exception.op_id, caught.exception.idem_key)
                self.assertEqual(told, (OPERATION["op_id"], OPERATION["idem_key"]))
        # Of a failed one nothing but the state is left either.
        for perform, fake in self.each(operation(state="FAILED", result=None, pruned=True)):
            with self.assertRaises(clinch.OperationFailed):
                perform(fake.url, "call", SUBMIT[1])

    def test_not_json_is_refused_before_anything_is_sent(self) -> None:
        for perform, fake in self.each(operation()):
            for payload in (float("nan"), object()):
                with self.assertRaises((TypeError, ValueError)):
                    perform(fake.url, "submit", ("a", "b", "c", payload))
            self.assertEqual(fake.requests, [])

    def test_secrets_are_in_no_representation(self) -> None:
        client = clinch.Client("http://127.0.0.1:1", "clk_secret")
        self.assertNotIn("clk_secret", repr(client._address) + repr(client))

    def test_addresses_are_checked(self) -> None:
        for url in ("127.0.0.1:7070", "ftp://a", "http://user@a", "http://a/?x"):
            with self.assertRaises(ValueError):
                clinch.Client(url)

    def test_a_line_break_in_a_header_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            clinch.Client("http://127.0.0.1:1", "clk_a\r\nx: y")
        with Fake(operation()) as fake, clinch.Client(fake.url) as client:
            with self.assertRaises(ValueError):
                client.submit("a", "b", "c", traceparent="00\r\nx: y")

            async def submit() -> None:
                async with clinch.AsyncClient(fake.url) as client:
                    await client.submit("a", "b", "c", traceparent="00\r\nx: y")

            with self.assertRaises(ValueError):
                asyncio.run(submit())
            self.assertEqual(fake.requests, [])

    def test_a_lease_is_not_repeated(self) -> None:
        self.assertFalse(_steps.ENDPOINTS["lease"].repeatable)
        steps = _steps.request("lease", budget=60.0, body={})
        next(steps)
        with self.assertRaises(clinch.Unavailable):
            steps.send(_steps.Broken("ConnectionResetError"))

    def test_ten_thousand_and_one_operations_are_two_requests(self) -> None:
        commands = [clinch.Command("a", "b", str(number)) for number in range(10_001)]
        steps = _calls.bulk(commands, batch_id=None, budget=1.0)
        sizes = []
        outcome: Any = None
        try:
            while True:
                step = steps.send(outcome)
                assert isinstance(step, _steps.Send) and step.body
                size = len(json.loads(step.body)["operations"])
                sizes.append(size)
                results = [{"status": 202, "op_id": "x"}] * size
                outcome = _steps.Reply(200, {}, json.dumps({"results": results}).encode())
        except StopIteration as end:
            self.assertEqual(len(end.value), 10_001)
        self.assertEqual(sizes, [10_000, 1])

    def test_both_clients_have_the_same_methods(self) -> None:
        def methods(of: type) -> Any:
            return {
                name: str(inspect.signature(member)).split("->")[0]
                for name, member in vars(of).items()
                if not name.startswith("_") and callable(member)
            }

        self.assertEqual(methods(clinch.Client), methods(clinch.AsyncClient))
