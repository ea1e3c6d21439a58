/** A remote worker: charges payments at a provider, each at most once. */

import { Done, Fail, Retry, Unknown, Worker } from "clinch-client";

const worker = new Worker(process.env["CLINCH_URL"]);
const provider = process.env["PROVIDER_URL"] ?? "http://127.0.0.1:8099";

worker.handle<{ amount: number }>("payments", "charge", async (call) => {
  const answer = await fetch(`${provider}/charges/${call.bizKey}`, {
    method: "POST",
    // The same key in every attempt: the provider charges once.
    headers: { "idempotency-key": call.outboundKey, "content-type": "application/json" },
    body: JSON.stringify(call.payload),
    signal: AbortSignal.timeout(10_000),
  }).catch(() => {
    throw new Unknown("the connection broke");
  });
  if (answer.status === 429) {
    throw new Retry("the provider is busy", { applied: "no", afterMs: 5_000 });
  }
  if (answer.status === 402) throw new Fail("card_declined", "the bank declined the card");
  if (!answer.ok) throw new Unknown(`http_${answer.status}`);
  const charged = (await answer.json()) as { id: string };
  return new Done(charged, { txnId: charged.id });
});

await worker.run();
