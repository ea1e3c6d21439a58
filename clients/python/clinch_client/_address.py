"""The address and the key of a server."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Dict, Mapping, Optional
from urllib.parse import urlsplit

#: The server closes a connection that is idle for 10 s by default. A connection that was idle for
#: longer than this is not used again.
IDLE_MAX = 5.0
#: How long a connection may take to be established.
CONNECT_TIMEOUT = 10.0


@dataclass(frozen=True)
class Address:
    """Where the server is, and how to speak to it."""

    host: str
    port: int
    prefix: str
    tls: Optional[ssl.SSLContext] = field(repr=False)
    api_key: Optional[str] = field(repr=False)

    @staticmethod
    def of(url: str, api_key: Optional[str], tls: Optional[ssl.SSLContext]) -> Address:
        """Reads an address such as ``https://clinch.example:7070``."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("the address of a server begins with http:// or https://")
        if parts.username or parts.query or parts.fragment:
            raise ValueError("the address of a server has no user, query or fragment")
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise ValueError("an API key is printable ASCII")
        secure = parts.scheme == "https"
        if secure and tls is None:
            tls = ssl.create_default_context()
        port = parts.port or (443 if secure else 80)
        prefix = parts.path.rstrip("/")
        return Address(parts.hostname, port, prefix, tls if secure else None, api_key)

    def headers(self, more: Mapping[str, str], has_body: bool) -> Dict[str, str]:
        """The headers of a request."""
        headers = {"accept": "application/json", "user-agent": "clinch-client-python"}
        if has_body:
            headers["content-type"] = "application/json"
        if self.api_key is not None:
            headers["authorization"] = f"Bearer {self.api_key}"
        headers.update(more)
        for value in headers.values():
            if "\r" in value or "\n" in value:
                raise ValueError("a header holds a line break")
        return headers
