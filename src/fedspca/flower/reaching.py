"""Reach the study's server as a site does, or say in words what is wrong.

In hospitals, machines often reach the internet only through a forward proxy, set by ``HTTPS_PROXY`` and ``NO_PROXY``.
Flower's client uses these variables, so the checks here use them too. The password of a proxy is never shown.
"""

import base64
import http.client
import socket
import ssl
import time
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from fedspca.flower.certificates import Certificates

PROXY_PORTS = {"http": 80, "https": 443}
TURNS = 5  # more than a handshake takes
AHEAD, BEHIND = 5.0, 300.0  # seconds by which Flower's server lets the clock of a node be wrong


class Proxy(NamedTuple):
    """A forward proxy: its address, its protocol, and the credentials that it is given."""

    scheme: str
    host: str
    port: int
    authorization: str | None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Unreachable(OSError):
    """What stands between a site and the study's server, in words."""


def proxy_for(host: str, port: int) -> Proxy | None:
    """The proxy through which this machine reaches a host, by its settings; None if it connects directly."""
    if _is_loopback(host):
        return None
    proxies = getproxies()
    url = proxies.get("https") or proxies.get("all")
    if not url or proxy_bypass(f"[{host}]:{port}" if ":" in host else f"{host}:{port}") or proxy_bypass(host):
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        found = parts.port or PROXY_PORTS[parts.scheme]
    except (KeyError, ValueError):
        found = 0
    if not parts.hostname or not found:
        raise Unreachable("the proxy in HTTPS_PROXY is no address like http://proxy.example.org:3128")
    known = None
    if parts.username is not None:
        words = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        known = f"Basic {base64.b64encode(words.encode()).decode()}"
    return Proxy(parts.scheme, parts.hostname, found, known)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def try_connection(host: str, port: int, authority: Path, timeout: float = 5.0) -> str | None:
    """Connect as a site does; return None if the server is there and is the study's, or else in words what is wrong."""
    try:
        with connected(host, port, authority, timeout):
            return None
    except Unreachable as error:
        return str(error)


def connected(host: str, port: int, authority: Path, timeout: float = 5.0) -> ssl.SSLSocket:
    """A connection to the study's server, through the machine's proxy if it has one, or raise :class:`Unreachable`."""
    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError):
        raise Unreachable(f"the authority's certificate {authority} cannot be read") from None
    proxy = proxy_for(host, port)
    plain = _opened(host, port, timeout) if proxy is None else _through(proxy, host, port, timeout)
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        plain.close()
        raise Unreachable(_why_untrusted(error, host, proxy)) from None
    except ssl.SSLError as error:
        plain.close()
        raise Unreachable(f"something else than the study's server answers at {host}:{port} ({error.reason})") from None
    except OSError as error:
        plain.close()
        raise Unreachable(f"{host}:{port} broke the connection off: {error.strerror or error}") from None


def try_certificate(served: Certificates, host: str) -> str | None:
    """Shake hands in memory as a site and the server do; return None if a site accepts it, or else why not."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        server.load_cert_chain(served.certificate, served.key)
        client = ssl.create_default_context(cafile=served.authority)
    except (OSError, ssl.SSLError) as error:
        return f"the certificate, its key or its authority cannot be used together ({error.strerror or error})"
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(back, there, server_hostname=host), server.wrap_bio(there, back, server_side=True)]
    for _ in range(TURNS):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return _why_untrusted(error, host, None)
    return None


def clock_of(host: str, port: int, authority: Path, timeout: float = 5.0) -> float | None:
    """Return the time that the study's server tells, in seconds; None if it tells none. Raise :class:`Unreachable`."""
    with connected(host, port, authority, timeout) as connection:
        connection.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode("idna"))
        try:
            response = http.client.HTTPResponse(connection)
            response.begin()
            return parsedate_to_datetime(response.headers["date"]).timestamp()
        except (OSError, http.client.HTTPException, TypeError, ValueError):
            return None


def try_clock(host: str, port: int, authority: Path, timeout: float = 5.0) -> str | None:
    """Return None if the server accepts letters by this machine's clock, as far as is known, or else what is wrong."""
    there = clock_of(host, port, authority, timeout)
    ahead = 0.0 if there is None else time.time() - there
    if -BEHIND <= ahead <= AHEAD + 1.0:  # the server's time is in whole seconds
        return None
    side = "ahead of" if ahead > 0 else "behind"
    return (
        f"the clock of this machine is {abs(ahead):.0f} s {side} the coordinator's; set it right (at most {AHEAD:g} s "
        f"ahead and {BEHIND:g} s behind are accepted)"
    )


def _opened(host: str, port: int, timeout: float) -> socket.socket:
    try:
        return socket.create_connection((host, port), timeout=timeout)
    except (socket.gaierror, UnicodeError):
        raise Unreachable(f"the name {host} is not known; check the address in the invitation") from None
    except TimeoutError:
        raise Unreachable(f"nothing answers at {host}:{port}; a firewall may drop the connection") from None
    except ConnectionRefusedError:
        raise Unreachable(f"nothing listens at {host}:{port}; the coordinator may not have started the study") from None
    except OSError as error:
        raise Unreachable(f"{host}:{port} cannot be reached: {error.strerror or error}") from None


def _through(proxy: Proxy, host: str, port: int, timeout: float) -> socket.socket:
    """A connection through a proxy, as HTTP's CONNECT makes it."""
    plain: socket.socket | None = None
    try:
        plain = socket.create_connection((proxy.host, proxy.port), timeout=timeout)
        if proxy.scheme == "https":
            plain = ssl.create_default_context().wrap_socket(plain, server_hostname=proxy.host)
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        known = f"Proxy-Authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
        plain.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{known}\r\n".encode())
        response = http.client.HTTPResponse(plain, method="CONNECT")
        response.begin()
    except socket.gaierror:
        raise Unreachable(f"the name of the proxy, {proxy.host}, is not known; check HTTPS_PROXY") from None
    except (OSError, http.client.HTTPException) as error:
        if plain is not None:
            plain.close()
        why = "it does not answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or error
        raise Unreachable(f"the proxy {proxy} cannot be used ({why}); check HTTPS_PROXY") from None
    if response.status != http.client.OK:
        plain.close()
        raise Unreachable(_why_not_let_through(response.status, proxy, f"{host}:{port}"))
    return plain


def _why_not_let_through(status: int, proxy: Proxy, target: str) -> str:
    match status:
        case http.client.PROXY_AUTHENTICATION_REQUIRED:
            wrong = "does not know this name and password" if proxy.authorization else "asks for a name and a password"
            return f"the proxy {proxy} {wrong}; set HTTPS_PROXY=http://NAME:PASSWORD@{proxy}"
        case http.client.FORBIDDEN | http.client.METHOD_NOT_ALLOWED:
            return f"the proxy {proxy} does not let this machine through to {target}; ask who runs it to allow that"
        case _:
            return (
                f"the proxy {proxy} does not reach {target} (it says {status}); the coordinator may not have started "
                "the study"
            )


def _why_untrusted(error: ssl.SSLCertVerificationError, host: str, proxy: Proxy | None) -> str:
    match error.verify_code:
        case 10:
            return "the server's certificate has expired; the coordinator must renew it"
        case 9:
            return "the server's certificate is not valid yet; check the clock of this machine"
        case 62 | 64:
            return f"the server's certificate is not for {host}; the coordinator must add this name or address to it"
        case 7 | 18 | 19 | 20 | 21:
            hint = (
                "" if proxy is None else f" (does the proxy {proxy} open TLS? It must pass this connection on as it is)"
            )
            return (
                f"the server's certificate was not signed by this study's authority{hint}; do not go on before you "
                "know why"
            )
        case _:
            return f"the server's certificate is not accepted: {error.verify_message}"
