// What a worker reports to a server that does not answer as it should.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as clinch from "clinch-client";
import { CUT, fake, problem } from "./fake.js";

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
const reports = (t, handler, ...answers) => reportsOf(t, {}, handler, ...answers);

/** The same, with options of the worker. */
async function reportsOf(t, options, handler, ...answers) {
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
  const worker = new clinch.Worker(server.url, { log: () => {}, ...options });
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
    [1n, undefined],
    [new clinch.Done(circular, { txnId: "tx_9" }), "tx_9"],
  ]) {
    const [[what, body], ...rest] = await reports(t, () => result);
    assert.deepEqual([what, body.type, rest.length], ["outcome", "ok", 0]);
    assert.deepEqual([body.payload, body.provider_txn_id], [null, txnId]);
  }
});

test("only what cannot be written is left out of an ok", async (t) => {
  const circular = {};
  circular.self = circular;
  const mail = { domain: "payments", event_type: "mail", biz_key: "r-1", payload: 7 };
  const broken = { ...mail, payload: 1n };
  const txnId = "t";
  // What the handler returned; its payload, txnId and spawned payloads as they are sent.
  const cases = [
    [new clinch.Done({ amount: 1n }, { txnId, spawn: [mail] }), [null, "t", [7]], "payload"],
    [new clinch.Done(circular, { txnId, spawn: [mail, mail] }), [null, "t", [7, 7]], "payload"],
    [new clinch.Done(1, { txnId: 1n, spawn: [mail] }), [1, undefined, [7]], "provider_txn_id"],
    [new clinch.Done(1, { txnId, spawn: [broken, mail] }), [1, "t", [undefined, 7]], "spawn[0]"],
    [new clinch.Done(1, { txnId, spawn: [mail, undefined] }), [1, "t", [7, undefined]], "spawn[1]"],
    [new clinch.Done(1, { txnId, spawn: mail }), [1, "t", [undefined]], "spawn"],
  ];
  for (const [done, told, leftOut] of cases) {
    const lines = [];
    const options = { log: (line) => lines.push(line) };
    const [[what, body], ...rest] = await reportsOf(t, options, () => done);
    assert.deepEqual([what, body.type, rest.length], ["outcome", "ok", 0]);
    const spawn = body.spawn.map((one) => one?.payload);
    assert.deepEqual([body.payload, body.provider_txn_id, spawn], told);
    assert.ok(lines[0].endsWith(`not JSON: ${leftOut}`), lines[0]);
    // The keys do not depend on what else can be written.
    for (const [number, one] of body.spawn.entries()) {
      if (one !== null) assert.equal(one.idem_key, `${DELIVERY.op_id}:${number}`);
    }
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

test("what refuses to become text loses no outcome", async (t) => {
  const silent = new Error();
  Object.defineProperty(silent, "message", {
    get() {
      throw new Error("no text");
    },
  });
  const log = () => {
    throw new Error("no log");
  };
  for (const options of [{ exposeErrors: true }, { log }]) {
    const [[, body]] = await reportsOf(t, options, () => {
      throw silent;
    });
    assert.deepEqual([body.type, body.reason.split(":")[0]], ["retry", "the handler threw Error"]);
  }
});

test("a delivery that cannot be read loses no other", async () => {
  let leases = 0;
  let reported;
  const fetch = stubborn((path, body) => {
    if (path === "/v1/leases") return { deliveries: leases++ === 0 ? [{}, DELIVERY] : [] };
    reported = body;
    worker.stop();
    return STATE;
  });
  const worker = new clinch.Worker("http://clinch.example", { fetch, log: () => {} });
  await worker.handle("payments", "charge", () => 7).run();
  assert.equal(reported.payload, 7);
});

test("no call is made for a lease that is over", async (t) => {
  // Every look at a clock is an hour later: a process that was suspended. `performance` stands
  // still while the machine sleeps.
  for (const clock of [performance, Date]) {
    let hours = 0;
    const mocked = t.mock.method(clock, "now", () => (hours += 3_600_000));
    let called = false;
    const [[what]] = await reports(t, () => (called = true));
    mocked.mock.restore();
    assert.deepEqual([what, called], ["release", false]);
  }
});

test("a clock that is set back loses no work", async (t) => {
  let hours = 0;
  t.mock.method(Date, "now", () => (hours -= 3_600_000));
  const [[what, { payload }]] = await reports(t, () => 7);
  assert.deepEqual([what, payload], ["outcome", 7]);
});

test("a server that is not Clinch ends the worker", async (t) => {
  for (const answer of ["<html>", {}]) {
    const server = await fake(t, ok(answer));
    const worker = new clinch.Worker(server.url).handle("payments", "*", () => null);
    await assert.rejects(worker.run(), clinch.ClinchError);
  }
});

test("answers that are not of the server lose no outcome", async (t) => {
  const strangers = [404, 302, 400, 200].map((status) => ({ status, headers: {}, body: "<html>" }));
  const made = await reports(t, () => 7, ...strangers, problem(401, "unauthenticated"));
  assert.deepEqual(
    made.map(([, body]) => body.payload),
    Array(6).fill(7),
  );
});

/** The members of a report; a null in place of the operations that follow is told. */
const named = (body) =>
  Object.entries(body).map(([name, part]) => (part?.[0] === null ? `${name}: null` : name));

test("a refused report is sent again with what counts", async (t) => {
  const mail = { domain: "a", event_type: "mail", biz_key: "b", idem_key: "mail-1", payload: 7 };
  const txnId = "tx_9";
  // What the handler returned; the members of each report beside the type, until one is taken or
  // none is left.
  const cases = [
    [
      new clinch.Done(1, { txnId, spawn: [mail] }),
      ["payload provider_txn_id spawn", "provider_txn_id spawn"],
      ["payload provider_txn_id spawn: null", "provider_txn_id spawn: null", "provider_txn_id"],
    ],
    [new clinch.Done(1, { txnId }), ["payload provider_txn_id", "provider_txn_id"]],
    [new clinch.Done(null, { spawn: [mail] }), ["payload spawn", "payload spawn: null", "payload"]],
    [
      new clinch.Retry("why", { applied: "no", afterMs: 5 }),
      ["after_ms applied reason", "after_ms applied", "applied"],
    ],
    [new clinch.Fail("declined", "why", { cause: "x" }), ["cause code message", "code"]],
  ];
  const one = [problem(400, "invalid_request"), problem(413, "payload_too_large")];
  const refused = [...one, ...one];
  for (const [outcome, ...lists] of cases) {
    const expected = lists.flat();
    for (let taken = 1; taken <= expected.length; taken += 1) {
      const made = await reports(t, () => outcome, ...refused.slice(0, taken - 1));
      const told = made.map(([, { fence: _f, token: _t, worker: _w, type: _, ...rest }]) =>
        named(rest).sort().join(" "),
      );
      assert.deepEqual(told, expected.slice(0, taken));
    }
  }
  const lines = [];
  const log = (line) => lines.push(line);
  await reportsOf(t, { log }, () => new clinch.Done(1, { spawn: [mail] }), ...refused);
  const lost = lines.map((line) => line.split("without ").at(-1));
  assert.deepEqual(lost, ["payload", "spawn", "payload, spawn", "payload, spawn"]);
});

test("a mistake in a time or a code changes no outcome", async (t) => {
  for (const [afterMs, told] of [
    ["5", 5],
    [-3, 0],
    [1.6, 2],
    ["soon", undefined],
    [Number.NaN, undefined],
    [Number.POSITIVE_INFINITY, undefined],
    [1e300, 1e12],
  ]) {
    const [[, body]] = await reports(t, () => new clinch.Retry("x", { applied: "no", afterMs }));
    assert.deepEqual([body.applied, body.after_ms], ["no", told]);
  }
  const [[, body]] = await reports(t, () => new clinch.Fail(402));
  assert.equal(body.code, "402");
});

test("what a handler leaves undone is unknown", async (t) => {
  async function* stream() {
    yield 1;
  }
  function* steps() {
    yield 1;
  }
  for (const undone of [
    () => stream(),
    () => steps(),
    () => stream,
    () => new Error("password"),
    () => new clinch.Done(Promise.resolve(1)),
    () => new clinch.Done(stream()),
  ]) {
    const [[what, body]] = await reports(t, undone);
    assert.deepEqual([what, body.type, body.applied], ["outcome", "retry", "unknown"]);
    assert.doesNotMatch(JSON.stringify(body), /password/);
  }
  for (const handler of [stream, steps]) {
    assert.throws(() => new clinch.Worker().handle("a", "*", handler), TypeError);
  }
});

test("a heartbeat that hangs is not waited for", async (t) => {
  let beats = 0;
  let isLost = () => {};
  const lost = new Promise((resolve) => (isLost = resolve));
  const server = await fake(t, async (path) => {
    if (path === "/v1/leases") {
      const deliveries = worker.leased ? [] : [DELIVERY];
      worker.leased = true;
      return ok({ deliveries });
    }
    if (path.endsWith("/heartbeat")) {
      beats += 1;
      await lost;
    } else worker.stop();
    return ok({ op_id: DELIVERY.op_id, state: "IN_PROGRESS", fence: 1, cancel_requested: false });
  });
  const worker = new clinch.Worker(server.url, { leaseMs: 1_000, log: () => {} });
  const moment = () => new Promise((resolve) => setTimeout(resolve, 10));
  worker.handle("payments", "charge", async (call) => {
    // The lease is one second long. Nothing but the worker's own clock can tell.
    while (!call.leaseLost) await moment();
    isLost();
    // Once the server answers again, the lease is known to be this worker's.
    while (call.leaseLost) await moment();
    return 7;
  });
  await worker.run();
  assert.ok(beats >= 2);
});

/** A `fetch` that cannot be aborted; requests are answered by a function of path and body. */
const stubborn = (answer) => async (url, { body }) => {
  const { pathname } = new URL(url);
  const document = await answer(pathname, JSON.parse(body));
  return new Response(JSON.stringify(document), { headers: { "content-type": "application/json" } });
};
const STATE = { op_id: DELIVERY.op_id, state: "IN_PROGRESS", fence: 1, cancel_requested: false };

test("handlers end in time beside a lease that hangs", { timeout: 60_000 }, async () => {
  let leases = 0;
  let isReported = () => {};
  const reported = new Promise((resolve) => (isReported = resolve));
  const made = [];
  const fetch = stubborn(async (path, { fence, type }) => {
    if (path !== "/v1/leases") {
      made.push([path.split("/").at(-1), fence, type]);
      // The lease answers when the handler has ended.
      isReported();
      return STATE;
    }
    leases += 1;
    if (leases === 1) return { deliveries: [DELIVERY] };
    await reported;
    return { deliveries: [{ ...DELIVERY, fence: 2 }] };
  });
  const options = { fetch, stopWithinMs: 10, log: () => {} };
  const worker = new clinch.Worker("http://clinch.example", options);
  worker.handle("payments", "charge", async (call) => {
    while (leases < 2) await new Promise((resolve) => setTimeout(resolve, 1));
    worker.stop();
    await new Promise((_, reject) => {
      call.signal.addEventListener("abort", () => reject(new clinch.Unknown("given up")));
    });
  });
  await worker.run();
  // What the lease brought after all was not begun, and is given back.
  assert.deepEqual(made, [
    ["outcome", 1, "retry"],
    ["release", 2, undefined],
  ]);
});

test("a lease that hangs does not keep a worker", { timeout: 60_000 }, async () => {
  let isAsked = () => {};
  const asked = new Promise((resolve) => (isAsked = resolve));
  const fetch = stubborn(() => {
    isAsked();
    return new Promise(() => {});
  });
  const options = { fetch, log: () => {} };
  const worker = new clinch.Worker("http://clinch.example", options);
  const running = worker.handle("payments", "charge", () => null).run();
  await asked;
  worker.stop();
  await running;
});

test("handlers may have all the time there is", async () => {
  let leases = 0;
  let reported;
  const fetch = stubborn((path, body) => {
    if (path !== "/v1/leases") reported = body;
    leases += path === "/v1/leases" ? 1 : 0;
    return path === "/v1/leases" ? { deliveries: leases === 1 ? [DELIVERY] : [] } : STATE;
  });
  const options = { fetch, stopWithinMs: Number.POSITIVE_INFINITY, log: () => {} };
  const worker = new clinch.Worker("http://clinch.example", options);
  worker.handle("payments", "charge", async (call) => {
    worker.stop();
    await new Promise((resolve) => setTimeout(resolve, 20));
    return call.signal.aborted;
  });
  await worker.run();
  assert.deepEqual([reported.type, reported.payload], ["ok", false]);
});

test("a worker outlives what stands before its server for a moment", async (t) => {
  const strangers = [200, 403, 404].map((status) => ({ status, headers: {}, body: "<html>" }));
  let leases = 0;
  const server = await fake(t, () => {
    leases += 1;
    if (leases > 1 && strangers.length > 0) return strangers.shift();
    if (strangers.length === 0) worker.stop();
    return ok({ deliveries: [] });
  });
  const worker = new clinch.Worker(server.url, { log: () => {} });
  await worker.handle("payments", "*", () => null).run();
  assert.deepEqual(strangers, []);
});

test("a lease asks for little after an answer was lost", async (t) => {
  const answers = [CUT, CUT, problem(503, "unavailable"), problem(500, "internal")];
  const server = await fake(t, () => {
    if (answers.length > 0) return answers.shift();
    if (server.requests.length === 8) worker.stop();
    return ok({ deliveries: [] });
  });
  const worker = new clinch.Worker(server.url, { log: () => {} });
  await worker.handle("payments", "*", () => null).run();
  // Each success doubles it.
  assert.deepEqual(
    server.requests.map(({ body }) => body.max),
    [8, 1, 1, 1, 1, 2, 4, 8],
  );
});
