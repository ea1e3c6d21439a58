"""What a caller does: submit, wait, list and cancel; with errors as types."""

import os

from clinch_client import Client, Command, NotSettled, OperationFailed, Unavailable

url = os.environ.get("CLINCH_URL", "http://127.0.0.1:7070")

clinch = Client(url, budget=10)

# The same idem_key again is the same operation: pass your own where you may call again.
operation = clinch.submit("spare", "report", "r-1", {"day": 1}, idem_key="r-1/1", wait=0.1)
print(operation.op_id, operation.state, operation.settled)

try:
    print(clinch.wait(operation.op_id, timeout=0.1).value())
except NotSettled:
    print("not settled: Clinch keeps working on it")
except OperationFailed as failed:
    print(failed.code, failed.effect)
except Unavailable:
    print("the server cannot be reached; the same call again is safe")

print(clinch.cancel(operation.op_id, "not needed").failure)

batch = clinch.open_batch()
commands = [Command("spare", "report", f"r-{day}", {"day": day}) for day in range(1, 4)]
for result in clinch.add_to_batch(batch.batch_id, commands):
    print(result.accepted())
clinch.seal_batch(batch.batch_id)

for listed in clinch.operations(batch_id=batch.batch_id):
    print(listed.biz_key, listed.state)
clinch.close()
