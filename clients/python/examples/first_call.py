"""A first durable call: a worker and a caller in one file."""

import os
import threading

from clinch_client import Call, Client, Worker

url = os.environ.get("CLINCH_URL", "http://127.0.0.1:7070")
worker = Worker(url)


@worker.handle("payments", "charge")
def charge(call: Call) -> object:
    # Call the provider here, with call.outbound_key as its idempotency key.
    return {"charged": call.payload["amount"]}


thread = threading.Thread(target=worker.run)
thread.start()
with Client(url) as clinch:
    print(clinch.call("payments", "charge", "order-123", {"amount": 5000}))
worker.stop()
thread.join()
