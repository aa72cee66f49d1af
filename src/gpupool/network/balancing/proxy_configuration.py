"""Compiles a proxy to the configuration of HAProxy 2.6 (its configuration manual). Pure.

A tenant's words appear in quotes alone, and only those that the checks of `proxy_model` let pass; ids
are the pool's own. So no host or path can add a line.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from gpupool.network.balancing.proxy_model import ProxyRoute, ProxyServer, ProxySettings

#: What may stand between apostrophes, where HAProxy expands nothing (manual, section 2.2).
_QUOTABLE = re.compile(r"[\x20-\x26\x28-\x7e]*")
_KEY = re.compile(r"[a-z]-[0-9a-z]+")

#: Requests of tenants never make the proxy wait without end; a model may take minutes to answer.
#: Old processes end 15 minutes after a change: streams get so long.
_HEAD = """global
    uid {uid}
    gid {uid}
    chroot {root}
    maxconn 4000
    nbthread 2
    hard-stop-after 15m
    mworker-max-reloads 20
    ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets
defaults
    mode http
    timeout connect 2s
    timeout check 1s
    timeout client 5m
    timeout server 5m
    timeout queue 10s
    timeout http-request 10s
    timeout http-keep-alive 10s
    timeout tunnel 1h
    retries 3
    option redispatch 1
    option idle-close-on-response
    option dontlognull
    default-server inter 1s fall 2 rise 1
frontend clients
"""
_TRUSTED = """    http-request set-header X-Forwarded-For %[src]
    http-request set-header X-Forwarded-Proto http
    http-request set-header X-Forwarded-Proto https if { ssl_fc }
"""
_NO_ROUTE = """backend unrouted
    http-request return status 404 content-type text/plain string 'no route for this host and path'
"""


@dataclass(frozen=True)
class ProxyPlaces:
    """Where a proxy has its files, and the account that its worker runs as.

    Attributes:
        root: an empty directory, all that the worker sees of the machine.
    """

    certificate: Path
    root: Path
    uid: int


def compile_proxy(
    settings: ProxySettings, places: ProxyPlaces, draining: Collection[str] = ()
) -> str:
    """Compile a proxy to its configuration.

    Args:
        draining: keys of servers that get no new requests, besides those of the settings.

    Raises:
        ValueError: a word cannot be written safely; the checks of input let none through.
    """
    lines = [_HEAD.format(uid=places.uid, root=_check_path(places.root)).rstrip()]
    lines += _compile_listeners(settings, settings.listen_port, "")
    if settings.https_port is not None:
        certificate = _check_path(places.certificate)
        options = f" ssl crt {certificate} alpn h2,http/1.1"
        lines += _compile_listeners(settings, settings.https_port, options)
        if settings.redirects:
            lines.append(_compile_redirect(settings.https_port))
    lines.append(_TRUSTED.rstrip())
    routes = sort_routes(settings.routes)
    for number, route in enumerate(routes):
        lines += _compile_rule(number, route)
    lines.append("    default_backend unrouted")
    for number, route in enumerate(routes):
        lines += _compile_backend(number, route, settings, draining)
    return "\n".join(lines) + "\n" + _NO_ROUTE


def sort_routes(routes: tuple[ProxyRoute, ...]) -> list[ProxyRoute]:
    """Sort routes so that the first one that matches is the most exact one."""

    def rank(route: ProxyRoute) -> tuple[int, int, int]:
        host = route.host
        exactness = 2 if host is None else 1 if host.startswith("*") else 0
        return exactness, -len(host or ""), -len(route.path)

    return sorted(routes, key=rank)


def list_server_backends(settings: ProxySettings) -> dict[str, list[str]]:
    """List by the key of each server the backends of the configuration that have it."""
    found = dict[str, list[str]]()
    for number, route in enumerate(sort_routes(settings.routes)):
        for server in route.servers:
            found.setdefault(server.key, []).append(name_backend(number))
    return found


def name_backend(number: int) -> str:
    return f"route{number}"


def _compile_listeners(settings: ProxySettings, port: int, options: str) -> list[str]:
    lines = [f"    bind 0.0.0.0:{port}{options}"]
    if settings.has_ipv6:
        lines.append(f"    bind :::{port} v6only{options}")
    return lines


def _compile_redirect(port: int) -> str:
    if port == 443:
        return "    http-request redirect scheme https code 308 unless { ssl_fc }"
    target = f"https://%[req.hdr(host),host_only]:{port}%[capture.req.uri]"
    return f"    http-request redirect location {target} code 308 unless {{ ssl_fc }}"


def _compile_rule(number: int, route: ProxyRoute) -> list[str]:
    """Compile the rule that gives requests of a route to its backend."""
    lines = list[str]()
    conditions = list[str]()
    if route.host is not None:
        name = f"host{number}"
        kind = "str"
        pattern = route.host
        if pattern.startswith("*"):
            kind = "end"
            pattern = pattern[1:]
        lines.append(f"    acl {name} req.hdr(host),host_only,lower -m {kind} -- {_quote(pattern)}")
        conditions.append(name)
    path = route.path.rstrip("/")
    if path:
        name = f"path{number}"
        lines.append(f"    acl {name} path -m str -- {_quote(path)}")
        # A name that is there twice matches where one of the two does.
        lines.append(f"    acl {name} path -m beg -- {_quote(path + '/')}")
        conditions.append(name)
    condition = f" if {' '.join(conditions)}" if conditions else ""
    return [*lines, f"    use_backend {name_backend(number)}{condition}"]


def _compile_backend(
    number: int, route: ProxyRoute, settings: ProxySettings, draining: Collection[str]
) -> list[str]:
    lines = [f"backend {name_backend(number)}", "    balance leastconn"]
    if settings.is_sticky:
        lines.append("    cookie GPUPOOL insert indirect nocache httponly attr SameSite=Lax")
    if settings.check_path is not None:
        lines += [
            "    option httpchk",
            f"    http-check send meth GET uri {_quote(settings.check_path)}",
            "    http-check expect status 200-399",
        ]
    for server in route.servers:
        lines.append(_compile_server(server, settings, draining))
    return lines


def _compile_server(server: ProxyServer, settings: ProxySettings, draining: Collection[str]) -> str:
    if not _KEY.fullmatch(server.key):
        raise ValueError(f"not a key of a port: {server.key!r}")
    words = ["    server", server.key, f"{server.address}:{server.port}", "check"]
    if settings.is_sticky:
        words += ["cookie", server.key]
    if server.is_draining or server.key in draining:
        words.append("disabled")
    return " ".join(words)


def _quote(text: str) -> str:
    if not _QUOTABLE.fullmatch(text):
        raise ValueError(f"cannot be quoted for HAProxy: {text!r}")
    return f"'{text}'"


def _check_path(path: Path) -> str:
    return _quote(str(path))
