// The client and the worker on a real server, whose address is in CLINCH_URL. The server has the
// routes of crates/cli/tests/clients/routes.toml.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import * as clinch from "clinch-client";

const { CLINCH_URL, CLINCH_LOCKED_URL, CLINCH_SUBMIT_KEY } = process.env;
assert.ok(CLINCH_URL && CLINCH_LOCKED_URL && CLINCH_SUBMIT_KEY, "the servers' addresses");

const client = new clinch.Client(CLINCH_URL);
const spare = (bizKey, payload = null, more = {}) => ({
  domain: "spare",
  event_type: "x",
  biz_key: bizKey,
  payload,
  ...more,
});
const charge = (payload, more = {}) => ({
  domain: "payments",
  event_type: "charge",
  biz_key: randomUUID(),
  payload,
  ...more,
});
const transfer = (payload) => ({ ...charge(payload), event_type: "transfer" });
const at_once = { waitMs: 0 };

/** A worker that is stopped with the test. */
function working(t, handlers, options = {}) {
  const worker = new clinch.Worker(CLINCH_URL, { log: () => {}, ...options });
  for (const [name, handler] of Object.entries(handlers)) {
    worker.handle("payments", name, handler);
  }
  const running = worker.run();
  t.after(() => {
    worker.stop();
    return running;
  });
  return { worker, running };
}

/** Waits until the operation has this phase. */
async function phase(opId, wanted) {
  const until = performance.now() + 30_000;
  for (;;) {
    const found = await client.get(opId);
    if (found.phase === wanted) return found;
    assert.ok(performance.now() < until, JSON.stringify(found));
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test("the same key is the same operation", async () => {
  const idem_key = randomUUID();
  const first = await client.submit(spare("b", 1, { idem_key }), at_once);
  assert.deepEqual(await client.submit(spare("b", 1, { idem_key }), at_once), first);
  await assert.rejects(client.submit(spare("b", 2, { idem_key }), at_once), (error) => {
    assert.ok(error instanceof clinch.IdempotencyMismatch);
    assert.equal(error.opId, first.op_id);
    return true;
  });
  const other = await client.submit(spare("b", 1), at_once);
  assert.notEqual(other.op_id, first.op_id);
});

test("options arrive", async () => {
  const traceparent = "00-65dbeda5f1c7e95f0d82249706e5a52b-8a6a157caff9daa9-01";
  const more = { run_at: "2100-01-01T00:00:00.000Z", priority: 3, labels: { a: "b" } };
  const found = await client.submit(spare("b", null, more), { ...at_once, traceparent });
  const { run_at, priority, labels, trace_id } = found;
  assert.deepEqual({ run_at, priority, labels }, more);
  assert.equal(trace_id, traceparent.split("-")[1]);
});

test("what does not settle in time goes on", async () => {
  const found = await client.submit(spare("b"), { waitMs: 50 });
  assert.equal(clinch.isSettled(found), false);
  await assert.rejects(client.wait(found.op_id, { timeoutMs: 50 }), (error) => {
    assert.ok(error instanceof clinch.NotSettled);
    assert.equal(error.operation.op_id, found.op_id);
    return true;
  });
});

test("cancel ends an operation and may be repeated", async () => {
  const { op_id } = await client.submit(spare("b"), at_once);
  for (let time = 0; time < 2; time += 1) {
    const canceled = await client.cancel(op_id, "not needed");
    assert.throws(() => clinch.resultOf(canceled), { name: "OperationFailed", code: "canceled" });
  }
});

test("errors have types", async () => {
  await assert.rejects(client.get(randomUUID()), clinch.NotFound);
  await assert.rejects(client.submit({ ...spare("b"), domain: "nowhere" }), clinch.UnknownRoute);
  await assert.rejects(client.submit(spare("")), { name: "InvalidRequest", field: "biz_key" });
  await assert.rejects(client.submit(spare("b", "x".repeat(300_000))), clinch.PayloadTooLarge);
  await assert.rejects(new clinch.Client(CLINCH_LOCKED_URL).get("x"), clinch.Unauthorized);
  const submitting = new clinch.Client(CLINCH_LOCKED_URL, { apiKey: CLINCH_SUBMIT_KEY });
  const { op_id } = await submitting.submit(spare("b"), at_once);
  await assert.rejects(submitting.cancel(op_id), clinch.Forbidden);
});

test("lists are read to their end", async () => {
  const key = randomUUID();
  const commands = Array.from({ length: 7 }, (_, number) => spare(key, number));
  const results = await client.submitMany([...commands, spare("")]);
  assert.throws(() => clinch.acceptedId(results.pop()), clinch.InvalidRequest);
  const accepted = new Set(results.map(clinch.acceptedId));
  const listed = new Set();
  for await (const one of client.operations({ biz_key: key }, { pageSize: 2 })) {
    listed.add(one.op_id);
  }
  assert.deepEqual(listed, accepted);
});

test("a batch completes once", async (t) => {
  working(t, { charge: (call) => call.payload });
  const onComplete = charge("end");
  const { batch_id } = await client.openBatch({ onComplete });
  await client.addToBatch(batch_id, [charge(0), charge(1), charge(2)]);
  assert.equal((await client.batch(batch_id)).total, 3);
  await assert.rejects(client.waitBatch(batch_id, { timeoutMs: 0 }), clinch.NotSettled);
  await client.sealBatch(batch_id);
  const done = await client.waitBatch(batch_id);
  assert.deepEqual([done.completed, done.failed], [3, 0]);
  const ids = [];
  for await (const batch of client.batches({ pageSize: 1 })) ids.push(batch.batch_id);
  assert.ok(ids.includes(batch_id));
  let ends = 0;
  for await (const _ of client.operations({ biz_key: onComplete.biz_key })) ends += 1;
  assert.equal(ends, 1);
});

test("outcomes", async (t) => {
  const attempts = [];
  const spawned = randomUUID();
  const cases = {
    done: () => new clinch.Done({ rows: 3 }, { txnId: "tx_9", spawn: [spare(spawned)] }),
    fail: () => {
      throw new clinch.Fail("card_declined", "no money", { cause: "51" });
    },
    unknown: () => {
      throw new clinch.Unknown("the connection broke");
    },
    bug: () => {
      throw new RangeError("password");
    },
    "not JSON": () => 1n,
    "too large": () => "x".repeat(20_000_000),
  };
  const handler = (call) => {
    attempts.push(call.attempt);
    if (call.payload === "retry" && call.attempt === 1) {
      throw new clinch.Retry("busy", { applied: "no", afterMs: 10 });
    }
    return cases[call.payload]?.() ?? [call.outboundKey.slice(0, 4), call.domain, call.eventType];
  };
  working(t, { transfer: handler });
  const settle = (what) => client.submit(transfer(what), { waitMs: 30_000 });
  const done = await settle("done");
  assert.deepEqual(done.result, { provider_txn_id: "tx_9", payload: { rows: 3 } });
  let count = 0;
  for await (const _ of client.operations({ biz_key: spawned })) count += 1;
  assert.equal(count, 1);
  attempts.length = 0;
  assert.deepEqual(clinch.resultOf(await settle("retry")), ["ck1_", "payments", "transfer"]);
  assert.deepEqual(attempts, [1, 2]);
  const { code, message, cause } = (await settle("fail")).failure;
  assert.deepEqual([code, message, cause], ["card_declined", "no money", "51"]);
  // The call was made: an answer that cannot be sent does not change that.
  assert.equal(clinch.resultOf(await settle("not JSON")), null);
  assert.equal(clinch.resultOf(await settle("too large")), null);
  // An unsafe route: what may have been applied is not called again.
  for (const [what, said] of [["unknown", /broke/], ["bug", /RangeError/]]) {
    const { op_id } = await client.submit(transfer(what), at_once);
    const held = await phase(op_id, "held");
    assert.equal(held.hold.reason, "effect_unknown");
    assert.match(held.last_error.message, said);
    assert.doesNotMatch(held.last_error.message, /password/);
  }
});

test("a checkpoint is there in the next attempt", async (t) => {
  working(t, {
    charge: async (call) => {
      if (call.attempt > 1) return call.checkpoint;
      assert.equal(call.checkpoint, null);
      await call.saveCheckpoint({ page: 3 });
      throw new clinch.Retry("later", { applied: "no", afterMs: 10 });
    },
  });
  assert.deepEqual(await client.call(charge(null)), { page: 3 });
});

test("a handler may take longer than the lease", async (t) => {
  const handler = async (call) => {
    // An operator's cancel comes with a heartbeat; three leases are over by then.
    await client.cancel(call.opId, "enough");
    const until = performance.now() + 30_000;
    const begin = performance.now();
    while (!call.cancelRequested || performance.now() < begin + 3_500) {
      assert.ok(performance.now() < until);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return [call.cancelRequested, call.leaseLost];
  };
  working(t, { transfer: handler }, { leaseMs: 1_000 });
  const found = await client.submit(transfer(null), { waitMs: 30_000 });
  assert.deepEqual([clinch.resultOf(found), found.attempts], [[true, false], 1]);
});

test("no more handlers run at once than allowed", async (t) => {
  let running = 0;
  let most = 0;
  const handler = async () => {
    most = Math.max(most, (running += 1));
    await new Promise((resolve) => setTimeout(resolve, 10));
    running -= 1;
  };
  const warnings = [];
  const listen = (warning) => warnings.push(warning.name);
  process.on("warning", listen);
  t.after(() => process.off("warning", listen));
  for (const concurrency of [3, 20]) {
    most = 0;
    const { worker, running: stopped } = working(t, { charge: handler }, { concurrency });
    const results = await client.submitMany(Array.from({ length: 60 }, () => charge(null)));
    for (const result of results) await client.wait(clinch.acceptedId(result));
    worker.stop();
    await stopped;
    assert.ok(most <= concurrency && most > 1, `${most} of ${concurrency}`);
  }
  // Node warns where listeners are added to one signal and not removed.
  assert.deepEqual(warnings, []);
});

test("stop lets a running handler end and leaves the rest", async (t) => {
  let begin;
  let end;
  const began = new Promise((resolve) => (begin = resolve));
  const mayEnd = new Promise((resolve) => (end = resolve));
  const handler = async () => {
    begin();
    await mayEnd;
    return "done";
  };
  const { worker, running } = working(t, { transfer: handler }, { concurrency: 1 });
  const first = await client.submit(transfer(1), at_once);
  await began;
  const second = await client.submit(transfer(2), at_once);
  worker.stop();
  end();
  await running;
  assert.equal(clinch.resultOf(await client.wait(first.op_id)), "done");
  assert.equal((await client.get(second.op_id)).state, "PENDING");
  await client.cancel(second.op_id);
});

test("a handler that does not end is told to, and reported as unknown", async (t) => {
  let begin;
  const began = new Promise((resolve) => (begin = resolve));
  const handler = (call) =>
    new Promise((_, reject) => {
      call.signal.addEventListener("abort", () => reject(call.signal.reason));
      begin();
    });
  const { worker, running } = working(t, { transfer: handler }, { stopWithinMs: 100 });
  const { op_id } = await client.submit(transfer(null), at_once);
  await began;
  worker.stop();
  await running;
  const found = await client.get(op_id);
  assert.deepEqual([found.phase, found.hold.reason], ["held", "effect_unknown"]);
});

test("a worker says what is wrong with its configuration", async () => {
  await assert.rejects(new clinch.Worker(CLINCH_URL).run(), /no handlers/);
  const lost = new clinch.Worker(CLINCH_URL).handle("nowhere", "x", () => null);
  assert.throws(() => lost.handle("nowhere", "x", () => null), /already/);
  await assert.rejects(lost.run(), clinch.UnknownRoute);
  const stranger = new clinch.Worker(CLINCH_LOCKED_URL).handle("spare", "*", () => null);
  await assert.rejects(stranger.run(), clinch.Unauthorized);
});
