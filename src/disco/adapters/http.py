"""One request to a server of somebody else: bounded in time as a whole and in bytes, without proxies and redirects."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx


class NoAnswerError(Exception):
    """The server did not answer in time, or not in HTTP; the text names the reason in a word."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered."""

    status: int
    body: bytes
    """At most as many bytes as were asked for."""


def ask(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
    deadline_s: float,
    most_bytes: int,
    server_name: str | None = None,
) -> Answer:
    """Send a request and read at most `most_bytes` of the answer's body.

    deadline_s: for everything from the connection to the last byte that is read. A limit per read would let a server
    that sends one byte now and then keep us for as long as it likes. server_name: the name that TLS checks, where the
    URL has an address.
    """
    import httpx

    async def asked() -> Answer:
        extensions: dict[str, Any] = {} if server_name is None else {"sni_hostname": server_name}
        async with (
            httpx.AsyncClient(
                timeout=deadline_s,
                follow_redirects=False,
                trust_env=False,
                limits=httpx.Limits(max_connections=1, max_keepalive_connections=0),
            ) as client,
            client.stream(method, url, headers=dict(headers), content=body, extensions=extensions) as answer,
        ):
            return Answer(answer.status_code, await _beginning(answer, most_bytes))

    async def in_time() -> Answer:
        return await asyncio.wait_for(asked(), deadline_s)

    try:
        return asyncio.run(in_time())
    except TimeoutError as error:
        raise NoAnswerError("Timeout") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NoAnswerError(type(error).__name__) from error


async def _beginning(answer: "httpx.Response", most_bytes: int) -> bytes:
    found = bytearray()
    if most_bytes:
        async for part in answer.aiter_bytes():
            found += part
            if len(found) >= most_bytes:
                break
    return bytes(found[:most_bytes])
