/** What a caller does: submit, wait, list and cancel; with errors as types. */

import { Client, NotSettled, OperationFailed, Unavailable, acceptedId, resultOf } from "clinch-client";

const clinch = new Client(process.env["CLINCH_URL"], { budgetMs: 10_000 });
const report = (day: number) => ({
  domain: "spare",
  event_type: "report",
  biz_key: `r-${day}`,
  payload: { day },
});

// The same idem_key again is the same operation: pass your own where you may call again.
const operation = await clinch.submit({ ...report(1), idem_key: "r-1/1" }, { waitMs: 100 });
console.log(operation.op_id, operation.state);

try {
  console.log(resultOf(await clinch.wait(operation.op_id, { timeoutMs: 100 })));
} catch (error) {
  if (error instanceof NotSettled) console.log("not settled: Clinch keeps working on it");
  else if (error instanceof OperationFailed) console.log(error.code, error.effect);
  else if (error instanceof Unavailable) console.log("the same call again is safe");
  else throw error;
}

console.log((await clinch.cancel(operation.op_id, "not needed")).failure);

const { batch_id } = await clinch.openBatch();
for (const result of await clinch.addToBatch(batch_id, [report(1), report(2), report(3)])) {
  console.log(acceptedId(result));
}
await clinch.sealBatch(batch_id);

for await (const listed of clinch.operations({ batch_id })) {
  console.log(listed.biz_key, listed.state);
}
