// What a worker reports to a server that does not answer as it should.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as clinch from "clinch-client";
import { fake, problem } from "./fake.js";

const DELIVERY = {
  op_id: "01a1dfbf-a9df-753e-bce0-d521b957f77b",
  fence: 1,
  token: "3f2504e04f8941d39a0c0305e82c3301",
  lease_until: null,
  attempt: 1,
  outbound_key: "ck1_x",
  deadline: null,
  checkpoint: null,
  traceparent: null,
  command: {
    domain: "payments",
    event_type: "charge",
    biz_key: "r-1",
    idem_key: "1",
    payload: { amount: 1 },
    run_at: null,
    deadline: null,
    priority: 0,
    labels: {},
  },
};
const ok = (body) => ({ status: 200, headers: {}, body });

/** Runs one attempt; the reports that the server got. The answers are those to reports. */
async function reports(t, handler, ...answers) {
  let leased = false;
  const server = await fake(t, (path) => {
    if (path === "/v1/leases") {
      const deliveries = leased ? [] : [DELIVERY];
      leased = true;
      return ok({ deliveries });
    }
    if (answers.length > 0) return answers.shift();
    worker.stop();
    return ok({ op_id: DELIVERY.op_id, state: "COMPLETED", fence: 1, cancel_requested: false });
  });
  const worker = new clinch.Worker(server.url, { log: () => {} });
  await worker.handle("payments", "charge", handler).run();
  const made = server.requests.filter((request) => request.url !== "/v1/leases");
  return made.map(({ url, body }) => [url.split("/").at(-1), body]);
}

test("an ok is offered until it is taken", async (t) => {
  const broken = problem(500, "internal");
  const made = await reports(t, () => 7, broken, problem(503, "unavailable"), broken);
  assert.equal(made.length, 4);
  for (const [what, { type, payload, fence, token }] of made) {
    assert.deepEqual([what, type, payload], ["outcome", "ok", 7]);
    assert.deepEqual([fence, token], [1, DELIVERY.token]);
  }
});

test("an ok that cannot be written is an ok", async (t) => {
  const circular = {};
  circular.self = circular;
  for (const [result, txnId] of [
    [1n, null],
    [new clinch.Done(circular, { txnId: "tx_9" }), "tx_9"],
    [new clinch.Done(1, { spawn: [undefined] }), null],
  ]) {
    const [[what, body], ...rest] = await reports(t, () => result);
    assert.deepEqual([what, body.type, rest.length], ["outcome", "ok", 0]);
    if (body.payload === undefined) assert.equal(body.provider_txn_id, txnId);
  }
});

test("the text of an exception is not reported", async (t) => {
  class Leak extends Error {}
  const thrown = [new Leak("password"), "password", Object.create(null), undefined];
  for (const error of thrown) {
    const [[, body]] = await reports(t, () => {
      throw error;
    });
    assert.deepEqual([body.type, body.applied], ["retry", "unknown"]);
    assert.doesNotMatch(JSON.stringify(body), /password/);
  }
});

test("no call is made for a lease that is over", async (t) => {
  // Every look at the clock is an hour later: a process that was suspended.
  let hours = 0;
  t.mock.method(performance, "now", () => (hours += 3_600_000));
  let called = false;
  const [[what]] = await reports(t, () => (called = true));
  assert.deepEqual([what, called], ["release", false]);
});

test("a server that is not Clinch ends the worker", async (t) => {
  for (const answer of ["<html>", {}]) {
    const server = await fake(t, ok(answer));
    const worker = new clinch.Worker(server.url).handle("payments", "*", () => null);
    await assert.rejects(worker.run(), clinch.ClinchError);
  }
});
