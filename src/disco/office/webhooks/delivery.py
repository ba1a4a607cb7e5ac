"""Posts webhook deliveries: to checked addresses alone, without proxies and redirects, reading little of the answer."""

import ipaddress
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from disco.adapters.http import NoAnswerError, ask
from disco.records.errors import DeliveryError, ForbiddenAddressError, InputError

_TIMEOUT_S = 10.0
_MOST_URL_CHARACTERS = 2_000
_PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Resolve = Callable[[str, int], list[str]]
"""The IP addresses of a host, as text."""


@dataclass(frozen=True, slots=True)
class WebAddress:
    """The parts of a URL that a delivery needs."""

    scheme: str
    host: str
    port: int
    target: str  # path and query

    @property
    def authority(self) -> str:
        """The value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def read_url(url: str) -> WebAddress:
    """The parts of a webhook's URL; InputError for any but plain http and https ones.

    >>> read_url("https://example.com:8443/hook?a=1")
    WebAddress(scheme='https', host='example.com', port=8443, target='/hook?a=1')
    """
    expected = "a URL such as https://example.com/disco"
    fix = None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
        if "@" in parts.netloc:
            fix = "Leave out the user name and the password; deliveries are signed."
        elif plain and parts.scheme in _PORTS and host and len(url) <= _MOST_URL_CHARACTERS and not parts.fragment:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            return WebAddress(parts.scheme, host, port or _PORTS[parts.scheme], target)
    except ValueError:  # brackets or a port that are none
        pass
    raise InputError("URL of a webhook", found=repr(url.split("@")[-1]), expected=expected, fix=fix)


def resolve(host: str, port: int) -> list[str]:
    """By the system's resolver; OSError where the name is not known."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in found))


@dataclass(frozen=True, slots=True)
class HttpSender:
    """Sends to public addresses; with `private` to all.

    The name is resolved once, every address is checked, and the connection goes to a checked address itself, so a name
    that has another address a moment later (DNS rebinding) leads nowhere else. TLS still checks the name.
    """

    private: bool = False
    resolve: Resolve = resolve
    timeout_s: float = _TIMEOUT_S
    """For a delivery as a whole, however slowly the receiver answers."""

    def __call__(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """The status of the answer; DeliveryError where there is none, ForbiddenAddressError where it may not be."""
        address = read_url(url)
        place = self._checked(address)
        shown = f"[{place}]" if ":" in place else place
        try:
            answer = ask(
                "POST",
                f"{address.scheme}://{shown}:{address.port}{address.target}",
                headers={**headers, "Host": address.authority},
                body=body,
                deadline_s=self.timeout_s,
                most_bytes=0,  # the body of the answer may be endless
                server_name=address.host,
            )
        except NoAnswerError as error:
            raise DeliveryError(f"The receiver did not answer ({error})") from error
        return answer.status

    def _checked(self, address: WebAddress) -> str:
        try:
            found = self.resolve(address.host, address.port)
        except (OSError, UnicodeError) as error:
            raise DeliveryError("The name of the receiver is not known") from error
        if not found:
            raise DeliveryError("The name of the receiver has no address")
        if not self.private and not all(map(is_public, found)):
            raise ForbiddenAddressError(
                "The webhook leads to a private address",
                fix="Use a public one, or set `webhooks_private: true` in disco.yaml where the network is trusted.",
            )
        return found[0]


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet, also where it holds another address within.

    >>> [is_public(one) for one in ("93.184.216.34", "127.0.0.1", "10.1.2.3", "::ffff:127.0.0.1", "64:ff9b::7f00:1")]
    [True, False, False, False, False]
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        within = found.ipv4_mapped or found.sixtofour or (found.teredo[1] if found.teredo else None)
        if within is None and found in _NAT64:
            within = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if within is not None:
            return is_public(str(within))
    local = found.is_loopback or found.is_link_local or found.is_unspecified or getattr(found, "is_site_local", False)
    return found.is_global and not (local or found.is_multicast or found.is_reserved)
