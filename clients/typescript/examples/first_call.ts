/** A first durable call: a worker and a caller in one file. */

import { Client, Worker } from "clinch-client";

const url = process.env["CLINCH_URL"];
const worker = new Worker(url);

worker.handle<{ amount: number }>("payments", "charge", async (call) => {
  // Call the provider here, with call.outboundKey as its idempotency key.
  return { charged: call.payload.amount };
});

const running = worker.run();
const clinch = new Client(url);
const command = {
  domain: "payments",
  event_type: "charge",
  biz_key: "order-123",
  payload: { amount: 5000 },
};
console.log(await clinch.call(command));
worker.stop();
await running;
