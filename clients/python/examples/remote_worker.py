"""A remote worker: charges payments at a provider, each at most once."""

import json
import os
import urllib.error
import urllib.request

from clinch_client import Call, Done, Fail, Retry, Unknown, Worker

worker = Worker(os.environ.get("CLINCH_URL", "http://127.0.0.1:7070"))
provider = os.environ.get("PROVIDER_URL", "http://127.0.0.1:8099")


@worker.handle("payments", "charge")
def charge(call: Call) -> Done:
    request = urllib.request.Request(
        f"{provider}/charges/{call.biz_key}",
        data=json.dumps(call.payload).encode(),
        # The same key in every attempt: the provider charges once.
        headers={"Idempotency-Key": call.outbound_key, "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            charged = json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 429:
            raise Retry("the provider is busy", applied="no", after=5) from error
        if error.code == 402:
            raise Fail("card_declined", "the bank declined the card") from error
        raise Unknown(f"http_{error.code}") from error
    except OSError as error:
        raise Unknown("the connection broke") from error
    return Done(charged, txn_id=charged["id"])


if __name__ == "__main__":
    worker.run()
