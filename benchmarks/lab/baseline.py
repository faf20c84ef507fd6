"""The service's response time at a low rate: what the baseline rule goes by. Standard library only.

    python -m benchmarks.lab.baseline URL REQUESTS PAUSE_S

prints the response times of so many requests, one after the other, in milliseconds, as JSON.
"""

from __future__ import annotations

import http.client
import json
import ssl
import sys
import time
from urllib.parse import urlsplit

__all__ = ["main", "probe"]


def probe(url: str, requests: int, pause_s: float) -> list[float]:
    """Response times in milliseconds; a request that fails has none."""
    parts = urlsplit(url)
    where = parts.hostname or "", parts.port
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(*where, timeout=10, context=context)
    else:
        connection = http.client.HTTPConnection(*where, timeout=10)
    took = []
    for _ in range(requests):
        began = time.perf_counter()
        try:
            connection.request("GET", parts.path)
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            connection.close()
        else:
            took.append((time.perf_counter() - began) * 1000)
        time.sleep(pause_s)
    return took


def main() -> None:
    """Probe and print."""
    url, requests, pause_s = sys.argv[1:4]
    print(json.dumps(probe(url, int(requests), float(pause_s))))


if __name__ == "__main__":
    main()
