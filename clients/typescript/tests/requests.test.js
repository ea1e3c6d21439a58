// What the client sends, and what it sends again.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as clinch from "clinch-client";
import { BY_CODE } from "../dist/errors.js";
import { Connection, ENDPOINTS } from "../dist/request.js";
import { CUT, DROP, OPERATION, fake, operation, problem } from "./fake.js";

const COMMAND = {
  domain: "payments",
  event_type: "charge",
  biz_key: "order-123",
  payload: { amount: 5 },
};

const client = (url) => new clinch.Client(url, { apiKey: "clk_secret", budgetMs: 5_000 });

test("a key is made up and every repeat carries it", async (t) => {
  const server = await fake(t, DROP, problem(503, "unavailable"), CUT, operation());
  const found = await client(server.url).submit(COMMAND);
  assert.deepEqual(clinch.resultOf(found), { rows: 3 });
  const bodies = server.requests.map((request) => request.body);
  assert.equal(bodies.length, 4);
  for (const body of bodies) assert.deepEqual(body, bodies[0]);
  assert.match(bodies[0].idem_key, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(server.requests[0].headers.authorization, "Bearer clk_secret");
});

test("retry-after is followed, within the budget", async (t) => {
  for (const [status, code, kind] of [
    [503, "unavailable", clinch.Unavailable],
    [429, "shed", clinch.Throttled],
  ]) {
    const server = await fake(t, problem(status, code, { "retry-after": "30" }));
    await assert.rejects(client(server.url).submit(COMMAND), kind);
    assert.equal(server.requests.length, 1);
  }
  const server = await fake(t, problem(429, "shed", { "retry-after": "1" }), operation());
  const { setTimeout } = globalThis;
  const pauses = [];
  t.mock.method(globalThis, "setTimeout", (act, ms, ...more) => {
    pauses.push(ms);
    return setTimeout(act, ms === 1_000 ? 0 : ms, ...more);
  });
  await client(server.url).submit(COMMAND);
  assert.equal(server.requests.length, 2);
  assert.ok(pauses.includes(1_000));
});

test("a refusal is not repeated and has a type", async (t) => {
  for (const [code, kind] of Object.entries(BY_CODE)) {
    const server = await fake(t, problem(418, code));
    await assert.rejects(client(server.url).submit(COMMAND), (error) => {
      assert.ok(error instanceof kind, code);
      assert.equal(error.code, code);
      assert.equal(error.name, kind.name);
      return true;
    });
    assert.equal(server.requests.length, 1);
  }
});

test("answers of a proxy have types too", async (t) => {
  for (const [status, kind] of [
    [400, clinch.InvalidRequest],
    [401, clinch.Unauthorized],
    [413, clinch.PayloadTooLarge],
    [500, clinch.ServerError],
  ]) {
    const server = await fake(t, { status, headers: {}, body: "<html>secret</html>" });
    await assert.rejects(client(server.url).submit(COMMAND), (error) => {
      assert.ok(error instanceof kind);
      assert.doesNotMatch(error.message, /secret/);
      return true;
    });
  }
  // They say nothing about the request: not even a 404 says that there is no operation.
  for (const status of [302, 404, 408, 502]) {
    const server = await fake(t, { status, headers: {}, body: "<html>" }, operation());
    await client(server.url).submit(COMMAND);
    assert.equal(server.requests.length, 2);
  }
});

test("an error has the keys that were made up", async (t) => {
  const busy = problem(503, "unavailable", { "retry-after": "30" });
  for (const method of ["submit", "call"]) {
    const server = await fake(t, busy);
    await assert.rejects(client(server.url)[method](COMMAND), (error) => {
      assert.ok(error instanceof clinch.Unavailable);
      assert.equal(error.idemKey, server.requests[0].body.idem_key);
      assert.ok(error.message.includes(error.idemKey));
      return true;
    });
  }
  const batches = await fake(t, busy);
  await assert.rejects(client(batches.url).openBatch(), (error) => {
    assert.equal(error.batchId, batches.requests[0].body.batch_id);
    return true;
  });
  const open = operation({ state: "PENDING", result: null });
  const lost = await fake(t, open, problem(400, "invalid_request"));
  await assert.rejects(client(lost.url).call(COMMAND, { timeoutMs: 61_000 }), (error) => {
    assert.ok(error instanceof clinch.InvalidRequest);
    assert.equal(error.opId, OPERATION.op_id);
    assert.equal(error.idemKey, lost.requests[0].body.idem_key);
    return true;
  });
});

test("results before an error are kept, and an empty key is not replaced", async (t) => {
  const results = Array(10_000).fill({ status: 202, op_id: "x" });
  const accepted = { status: 200, headers: {}, body: { results } };
  const server = await fake(t, accepted, problem(400, "invalid_request"));
  const commands = Array(10_000).fill(COMMAND);
  commands.push({ ...COMMAND, idem_key: "" });
  await assert.rejects(client(server.url).submitMany(commands), (error) => {
    assert.deepEqual([error.results.length, error.commands.length], [10_000, 10_001]);
    const sent = server.requests.flatMap((request) => request.body.operations);
    assert.deepEqual(
      sent.map((one) => one.idem_key),
      error.commands.map((one) => one.idem_key),
    );
    assert.equal(sent.at(-1).idem_key, "");
    return true;
  });
});

test("a batch that is opened again completes with the same operation", async (t) => {
  const server = await fake(t, { status: 200, headers: {}, body: {} });
  for (let n = 0; n < 2; n += 1) {
    await client(server.url).openBatch({ batchId: "b-1", onComplete: COMMAND });
  }
  const [first, second] = server.requests.map((request) => request.body);
  assert.deepEqual(first, second);
});

test("the budget begins with the first failure, and a repeat waits for what is left", async (t) => {
  let now = 0;
  t.mock.method(performance, "now", () => now);
  const urls = [];
  const fetch = async (url) => {
    urls.push(url);
    now += 45_000;
    throw new TypeError("the connection broke");
  };
  const away = new clinch.Client("http://127.0.0.1:1", { fetch });
  await assert.rejects(away.call(COMMAND), clinch.Unavailable);
  const waits = urls.map((url) => new URL(url).searchParams.get("wait"));
  assert.deepEqual(waits, ["60000ms", "15000ms"]);
});

test("a bulk request is not too long", async () => {
  const lengths = [];
  const fetch = async (_url, { body }) => {
    lengths.push(body.length);
    const size = JSON.parse(body).operations.length;
    return Response.json({ results: Array(size).fill({ status: 202, op_id: "x" }) });
  };
  const long = { ...COMMAND, payload: "x".repeat(4_000_000) };
  const counted = new clinch.Client("http://127.0.0.1:1", { fetch });
  assert.equal((await counted.submitMany(Array(5).fill(long))).length, 5);
  assert.equal(lengths.length, 2);
  assert.ok(Math.max(...lengths) < 16 * 1024 * 1024);
});

test("an answer that is too long is not read to its end", async () => {
  let read = 0;
  const fetch = async () => {
    const pull = (controller) => {
      read += 1;
      controller.enqueue(new Uint8Array(1024 * 1024));
    };
    return new Response(new ReadableStream({ pull }));
  };
  const endless = new clinch.Client("http://127.0.0.1:1", { fetch });
  await assert.rejects(endless.get("x"), /too long/);
  assert.ok(read < 100);
});

test("a redirect is not followed: it would carry the key to another server", async (t) => {
  const other = await fake(t, operation());
  const server = await fake(t, { status: 307, headers: { location: other.url }, body: "" });
  await assert.rejects(client(server.url).submit(COMMAND, { budgetMs: 0 }), clinch.Unavailable);
  assert.equal(other.requests.length, 0);
});

test("a server that is not there is unavailable", async () => {
  const nowhere = new clinch.Client("http://127.0.0.1:1", { budgetMs: 0 });
  await assert.rejects(nowhere.get("x"), clinch.Unavailable);
});

test("a lease is not repeated", async (t) => {
  assert.equal(ENDPOINTS.lease.repeatable, false);
  const server = await fake(t, DROP);
  const connection = new Connection(server.url, {});
  await assert.rejects(connection.send("lease", { budgetMs: 60_000, body: "{}" }), clinch.Unavailable);
  assert.equal(server.requests.length, 1);
});

test("a signal ends a call", async (t) => {
  const server = await fake(t, problem(503, "unavailable", { "retry-after": "4" }));
  const stop = new AbortController();
  const call = client(server.url).submit(COMMAND, { signal: stop.signal });
  stop.abort(new Error("enough"));
  await assert.rejects(call, /enough/);
});

test("a failed operation throws and an open one does too", async (t) => {
  const failure = { code: "card_declined", message: "m", cause: null, effect: "none" };
  const failed = await fake(t, operation({ state: "FAILED", failure, result: null }));
  await assert.rejects(client(failed.url).call(COMMAND), (error) => {
    assert.ok(error instanceof clinch.OperationFailed);
    assert.deepEqual([error.code, error.effect], ["card_declined", "none"]);
    return true;
  });
  const open = await fake(t, operation({ state: "PENDING", result: null }));
  await assert.rejects(client(open.url).call(COMMAND), clinch.NotSettled);
});

test("a result that is not there is no empty result", async (t) => {
  const empty = await fake(t, operation({ result: { provider_txn_id: null, payload: null } }));
  assert.equal(await client(empty.url).call(COMMAND), null);
  for (const [pruned, kind] of [
    [true, clinch.ResultPruned],
    [false, clinch.Unavailable],
  ]) {
    const server = await fake(t, operation({ result: null, pruned }));
    await assert.rejects(client(server.url).call(COMMAND), (error) => {
      assert.ok(error instanceof kind);
      assert.deepEqual([error.opId, error.idemKey], [OPERATION.op_id, OPERATION.idem_key]);
      return true;
    });
  }
  // Of a failed one nothing but the state is left either.
  const failed = await fake(t, operation({ state: "FAILED", result: null, pruned: true }));
  await assert.rejects(client(failed.url).call(COMMAND), clinch.OperationFailed);
});

test("ids are escaped, and addresses are checked", async (t) => {
  const server = await fake(t, operation());
  await client(server.url).get("a/b$&");
  assert.equal(server.requests[0].url, "/v1/operations/a%2Fb%24%26");
  for (const url of ["127.0.0.1:7070", "ftp://a", "http://user@a", "http://a/?x"]) {
    assert.throws(() => new clinch.Client(url), TypeError);
  }
});

test("10,001 operations are two requests", async (t) => {
  const sizes = [];
  const fetch = async (_url, { body }) => {
    const size = JSON.parse(body).operations.length;
    sizes.push(size);
    return Response.json({ results: Array(size).fill({ status: 202, op_id: "x" }) });
  };
  const counted = new clinch.Client("http://127.0.0.1:1", { fetch });
  const results = await counted.submitMany(Array(10_001).fill(COMMAND));
  assert.deepEqual([results.length, sizes], [10_001, [10_000, 1]]);
});
