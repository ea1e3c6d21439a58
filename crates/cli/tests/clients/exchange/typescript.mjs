// Sends every request of the client to a server that only exists in the description: the answers
// are its examples. Prints what was sent, by route, and what the client read.

import { readFileSync } from "node:fs";

const [root, description] = process.argv.slice(1);
const { Client, Done, Fail, Retry, Unknown, Worker } = await import(`${root}/dist/index.js`);
const { ENDPOINTS } = await import(`${root}/dist/request.js`);
const { paths } = JSON.parse(readFileSync(description, "utf8"));
const sent = {};
const endpoints = Object.values(ENDPOINTS);

/** What a test waits for: a request to this route. */
const awaited = new Map();
const request = (route) => new Promise((resolve) => awaited.set(route, resolve));

/** The last page of a list: the client would ask for the next one. */
const last = (answer) => ("next_cursor" in answer ? { ...answer, next_cursor: null } : answer);

let deliveries = 0;
/** The answer to a lease that finds nothing: it waits. */
let stop;
const stopped = new Promise((resolve) => (stop = () => resolve({ deliveries: [] })));
const answerOf = (route, method, path) => {
  const { examples } = paths[path][method]["responses"]["200"]["content"]["application/json"];
  const answers = Object.values(examples).map(({ value }) => value);
  // Deliveries: the lease that has some.
  const longest = answers.reduce((a, b) => (JSON.stringify(b).length > JSON.stringify(a).length ? b : a));
  if (route !== "POST /v1/leases") return last(longest);
  // Once, a delivery for each way to end; the last one has no handler.
  if (deliveries > 0) return stopped;
  const [one] = longest.deliveries;
  const types = ["ok", "retry", "unknown", "fail", "nobody"];
  deliveries = types.length;
  return {
    deliveries: types.map((event_type) => ({ ...one, command: { ...one.command, event_type } })),
  };
};

const fetch = async (url, { method, body }) => {
  const { pathname } = new URL(url);
  const fits = ({ path }) => new RegExp(`^${path.replace(/\{\w+\}/g, "[^/]+")}$`).test(pathname);
  // A fixed path goes before one with a parameter.
  const found = endpoints.filter((one) => one.method === method && fits(one));
  const { path } = found.find((one) => one.path === pathname) ?? found[0];
  const route = `${method} ${path}`;
  (sent[route] ??= []).push(body ? JSON.parse(body) : null);
  awaited.get(route)?.();
  const answer = await answerOf(route, method.toLowerCase(), path);
  return new Response(JSON.stringify(answer), { headers: { "content-type": "application/json" } });
};

const client = new Client("http://clinch.example", { fetch });
const command = {
  domain: "payments",
  event_type: "charge",
  biz_key: "order-123",
  idem_key: "c0ffee",
  payload: { amount: 5000 },
  run_at: "2026-11-16T08:00:00Z",
  deadline: "2026-11-16T20:00:00Z",
  priority: 5,
  labels: { team: "shop" },
};
const all = async (pages) => {
  const items = [];
  for await (const item of pages) items.push(item);
  return items;
};
await client.submit(command, { waitMs: 1_000 });
await client.cancel("x", "order withdrawn");
await client.openBatch({ onComplete: command });
await client.sealBatch("x");
await client.addToBatch("x", [command]);
const results = await client.submitMany([command]);
const operations = await all(client.operations());
const batches = await all(client.batches());

const worker = new Worker("http://clinch.example", { fetch, leaseMs: 1_000, log: () => {} });
const heartbeat = request("POST /v1/leases/{op_id}/heartbeat");
let open = 5;
const ended = () => {
  open -= 1;
  if (open > 0) return;
  worker.stop();
  stop();
};
awaited.set("POST /v1/leases/{op_id}/outcome", ended);
awaited.set("POST /v1/leases/{op_id}/release", ended);
const read = [];
const handle = (eventType, end) =>
  worker.handle("away", eventType, async (call) => {
    read.push(call.opId);
    return end(call);
  });
handle("ok", async (call) => {
  await call.saveCheckpoint({ page: 7 });
  await heartbeat;
  return new Done({ rows: 3 }, { txnId: "tx_9", spawn: [command] });
});
handle("retry", () => {
  throw new Retry("closed until eight", { applied: "no", afterMs: 60_000 });
});
handle("unknown", () => {
  throw new Unknown("the connection broke");
});
handle("fail", () => {
  throw new Fail("card_declined", "the card was declined", { cause: "do_not_honor" });
});
await worker.run();

console.log(
  JSON.stringify({
    sent,
    read: {
      OperationPage: [operations.map((one) => one.op_id), null],
      BatchListing: [batches.map((one) => one.batch_id), null],
      BulkResults: [results.map((one) => one.status), null],
      Deliveries: [[...new Set(read)], null],
    },
  }),
);
