"""The same client for asyncio."""

import asyncio
import os

from clinch_client import AsyncClient

url = os.environ.get("CLINCH_URL", "http://127.0.0.1:7070")


async def main() -> None:
    async with AsyncClient(url) as clinch:
        days = [clinch.submit("spare", "report", f"a-{day}", wait=0) for day in range(3)]
        for operation in await asyncio.gather(*days):
            print(operation.state)


asyncio.run(main())
