"""Sends every request of the client to a server that only exists in the description: the answers are
its examples. Prints what was sent, by route, and what the client read."""

import json
import sys

from clinch_client import _calls, _leases, outcomes
from clinch_client._steps import ENDPOINTS, Reply
from clinch_client.model import Command

with open(sys.argv[1], encoding="utf-8") as file:
    PATHS = json.load(file)["paths"]
sent = {}


def perform(name, steps):
    """The result of a call whose one request is answered by the example."""
    endpoint = ENDPOINTS[name]
    step = next(steps)
    route = f"{endpoint.method} {endpoint.path}"
    sent.setdefault(route, []).append(json.loads(step.body) if step.body else None)
    responses = PATHS[endpoint.path][endpoint.method.lower()]["responses"]
    examples = responses["200"]["content"]["application/json"]["examples"]
    # Deliveries: the lease that has some.
    answer = max((one["value"] for one in examples.values()), key=lambda one: len(str(one)))
    try:
        steps.send(Reply(200, {}, json.dumps(answer).encode()))
    except StopIteration as end:
        return end.value
    raise SystemExit(f"{route}: more than one request")


when = _calls.datetime.fromisoformat("2026-11-16T08:00:00+00:00")
command = Command("payments", "charge", "order-123", {"amount": 5000}, "c0ffee", when, when, 5, {"team": "shop"})
some = {"budget": 0.0}
perform("submit", _calls.submit(command, wait=1.0, **some))
perform("cancel", _calls.cancel("x", reason="order withdrawn", **some))
perform("open_batch", _calls.open_batch(None, command, **some))
perform("seal_batch", _calls.seal_batch("x", **some))
results = perform("bulk", _calls.bulk([command], batch_id=None, **some))
perform("add_to_batch", _calls.bulk([command], batch_id="x", **some))
operations, operations_next = perform("list", _calls.page({}, cursor=None, limit=None, **some))
batches, batches_next = perform("list_batches", _calls.batch_page(cursor=None, limit=None, **some))

asked = {"most": 1, "wait": 10.0, "length": 30.0, "worker": "worker-1"}
deliveries, _ = perform("lease", _leases.lease("away", ["report"], **asked))
delivery = deliveries[0]
perform("heartbeat", _leases.heartbeat(delivery, length=30.0))
perform("checkpoint", _leases.checkpoint(delivery, {"page": 7}, **some))
perform("release", _leases.release(delivery, worker="worker-1", **some))
for outcome in [
    outcomes.Done({"rows": 3}, txn_id="tx_9", spawn=[command]),
    outcomes.Retry("closed until eight", applied="no", after=60.0),
    outcomes.Unknown("the connection broke"),
    outcomes.Fail("card_declined", "the card was declined", cause="do_not_honor"),
]:
    document = outcomes.document(outcome, delivery.op_id)
    perform("outcome", _leases.outcome(delivery, document, worker="worker-1", **some))

print(json.dumps({
    "sent": sent,
    "read": {
        "OperationPage": [[one.op_id for one in operations], operations_next],
        "BatchListing": [[one.batch_id for one in batches], batches_next],
        "BulkResults": [[one.status for one in results], None],
        "Deliveries": [[one.op_id for one in deliveries], None],
    },
}))
