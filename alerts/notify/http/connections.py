"""Connections to receivers: the address is checked before use, through a proxy where one is configured, with TLS.

Connections to link-local addresses, where clouds serve instance credentials, are refused. A proxy checks addresses
itself.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

#: Metadata services of clouds, which hand out credentials; those of 169.254.0.0/16 are link-local.
METADATA = tuple(
    map(
        ipaddress.ip_network,
        (
            *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:42::42"),
            *("168.63.129.16", "100.100.100.200", "192.0.0.192"),
        ),
    )
)
#: IPv6 networks whose last 32 bits are an IPv4 address: compatible and translated addresses, and NAT64.
TRANSLATED = tuple(map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")))
#: NAT64 of a site, whose prefix may be longer: the IPv4 address follows it, and skips the bits 64 to 71 (RFC 6052).
LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
LOCAL_PREFIXES = (48, 56, 64)
#: Bits 64 to 95 of a tunnel within a site (ISATAP), which the IPv4 address follows.
ISATAP = (0x0000_5EFE, 0x0200_5EFE)
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, repr=False)
class ProxySettings:
    """The proxy of a client. `url` may contain a password. `excluded`: hosts, domains and networks reached directly."""

    url: str = ""
    excluded: tuple[str, ...] = ()
    from_environment: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)

    def proxy_of(self, target: SplitResult) -> SplitResult | None:
        """The proxy for a URL; None: it is reached directly."""
        host = target.hostname or ""
        if self.from_environment:
            found = getproxies_environment().get(target.scheme, "")
            return urlsplit(found) if found and not proxy_bypass_environment(host) else None
        if not self.url or any(_excludes(entry, host, target.port) for entry in self.excluded):
            return None
        return urlsplit(self.url)

    def headers_of(self, proxy: SplitResult) -> dict[str, str]:
        """Headers for the proxy, with its credentials."""
        if proxy.username is None:
            return dict(self.headers)
        pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
        return {**self.headers, "Proxy-Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def _excludes(entry: str, host: str, port: int | None) -> bool:
    """Whether an entry of `no_proxy` names a host: `*`, a domain with its subdomains, an address or a network."""
    name, _, wanted = (
        entry.strip().lower().rpartition(":") if entry.count(":") == 1 else (entry.strip().lower(), "", "")
    )
    if wanted and wanted != str(port):
        return False
    if name == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(name, strict=False)
    except ValueError:
        bare = name.lstrip(".")
        return bool(bare) and (host.lower() == bare or host.lower().endswith(f".{bare}"))


def open_connection(
    target: SplitResult, timeout: float, tls: ssl.SSLContext, server_name: str, proxy: ProxySettings
) -> tuple[http.client.HTTPConnection, Mapping[str, str]]:
    """A connection for requests to a URL, not yet open, and the headers that its proxy wants with each request."""
    through = proxy.proxy_of(target)
    if through is not None and through.scheme not in ("http", "https"):
        raise OSError(f"proxy_url: {through.scheme or 'no'} scheme; a proxy needs http:// or https://")
    near = through or target
    host, port = near.hostname or "", near.port or (443 if near.scheme == "https" else 80)
    connection = _CheckedConnection(host, port, timeout, _tls_layers(target, through, tls, server_name))
    if through is None:
        return connection, {}
    headers = proxy.headers_of(through)
    if target.scheme == "https":
        connection.set_tunnel(target.hostname or "", target.port or 443, headers=headers)
        return connection, {}
    return connection, headers


@dataclass(frozen=True)
class _TlsLayers:
    """TLS to the proxy, and to the target inside; None where there is none."""

    outer: tuple[ssl.SSLContext, str] | None
    inner: tuple[ssl.SSLContext, str] | None


def _tls_layers(
    target: SplitResult, proxy: SplitResult | None, tls: ssl.SSLContext, server_name: str
) -> _TlsLayers:
    inner = (tls, server_name or target.hostname or "") if target.scheme == "https" else None
    if proxy is None:
        return _TlsLayers(inner, None)
    outer = (ssl.create_default_context(), proxy.hostname or "") if proxy.scheme == "https" else None
    return _TlsLayers(outer, inner)


class _CheckedConnection(http.client.HTTPConnection):
    """Connects to the address that was checked: a second name resolution could return another."""

    def __init__(self, host: str, port: int, timeout: float, layers: _TlsLayers):
        super().__init__(host, port, timeout=timeout)
        self._layers = layers

    def connect(self) -> None:
        self.sock = connect_checked(self.host, self.port, self.timeout)
        self._wrap(self._layers.outer)
        if self._tunnel_host:  # type: ignore[attr-defined]
            self._tunnel()  # type: ignore[attr-defined]
        self._wrap(self._layers.inner)

    def _wrap(self, layer: tuple[ssl.SSLContext, str] | None) -> None:
        if layer is not None:
            context, name = layer
            self.sock = context.wrap_socket(self.sock, server_hostname=name)


def connect_checked(host: str, port: int, timeout: float | None) -> socket.socket:
    """Connect to the host's first permitted address that answers. Raises OSError where there is none."""
    problem: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        if is_forbidden(str(address[0])):
            problem = OSError(f"{host} resolves to {address[0]}, which is not permitted")
            continue
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(timeout)
            sock.connect(address)
        except OSError as error:
            sock.close()
            problem = error
        else:
            return sock
    raise problem


def is_forbidden(address: str) -> bool:
    """Whether an address is link-local, multicast, unspecified or of a cloud's metadata service.

    Other private addresses are permitted. An IPv6 address that stands for an IPv4 address is judged by both.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    return any(
        each.is_link_local
        or each.is_multicast
        or each.is_unspecified
        or any(each in network for network in METADATA if network.version == each.version)
        for each in (ip, *_embedded(ip))
    )


def _embedded(ip: _Address) -> Iterator[ipaddress.IPv4Address]:
    """The IPv4 addresses to which a gateway or the kernel may translate an IPv6 address."""
    if isinstance(ip, ipaddress.IPv4Address):
        return
    yield from filter(None, (ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())))
    number = int(ip)
    if any(ip in network for network in TRANSLATED) or (number >> 32) & 0xFFFFFFFF in ISATAP:
        yield ipaddress.IPv4Address(number & 0xFFFFFFFF)
    if ip in LOCAL_NAT64:
        packed = (number >> 64 << 56) | (number & ((1 << 56) - 1))  # without the bits 64 to 71
        found = ((packed >> (88 - size)) & 0xFFFFFFFF for size in LOCAL_PREFIXES)
        yield from (ipaddress.IPv4Address(each) for each in found if each >> 24)  # 0: another length is used


@contextlib.contextmanager
def cut_after(seconds: float, current: Callable[[], socket.socket | None]) -> Iterator[threading.Event]:
    """Shut the current socket down after `seconds`: a socket timeout alone restarts with every received byte.

    The event is set when that happens.
    """
    late = threading.Event()

    def cut() -> None:
        late.set()
        sock = current()
        with contextlib.suppress(OSError):
            if sock is not None:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # beneath TLS, which another thread is reading

    watch = threading.Timer(seconds, cut)
    watch.daemon = True
    watch.start()
    try:
        yield late
    finally:
        watch.cancel()
