"""The configuration of a proxy: exact routes first, and no word of a tenant adds a line."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.base.errors import BadInput
from gpupool.network.balancing.proxy_configuration import (
    ProxyPlaces,
    compile_proxy,
    list_server_backends,
)
from gpupool.network.balancing.proxy_model import (
    ProxyRoute,
    ProxyServer,
    ProxySettings,
    check_host,
    check_path,
)

PLACES = ProxyPlaces(Path("/run/x/certificate.pem"), Path("/run/x/root"), 1_900_000_007)
ONE = ProxyServer("n-1", IPv4Address("10.0.0.2"), 8000)
TWO = ProxyServer("n-2", IPv4Address("10.0.0.3"), 8000)
DEFAULT = ProxyRoute(None, "/", (ONE, TWO))
PLAIN = ProxySettings(
    80, None, redirects=False, is_sticky=False, check_path=None, routes=(DEFAULT,)
)


def find_rules(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip().startswith("use_backend")]


def find_listeners(settings: ProxySettings) -> list[str]:
    text = compile_proxy(settings, PLACES)
    return [line.strip() for line in text.splitlines() if line.strip().startswith("bind")]


def test_a_proxy_listens_on_ipv6_where_it_has_an_address() -> None:
    secure = replace(PLAIN, https_port=443)
    assert [line.split()[1] for line in find_listeners(secure)] == ["0.0.0.0:80", "0.0.0.0:443"]
    listeners = find_listeners(replace(secure, has_ipv6=True))
    assert [line.split()[1] for line in listeners] == [
        "0.0.0.0:80",
        ":::80",
        "0.0.0.0:443",
        ":::443",
    ]
    # The kernel gives IPv4 to the other listener, and both have the certificate.
    assert all("v6only" in line for line in listeners if ":::" in line)
    assert all("alpn h2" in line for line in listeners if ":443" in line)


def test_the_most_exact_host_and_the_longest_path_come_first() -> None:
    routes = (
        DEFAULT,
        ProxyRoute(None, "/v1", (ONE,)),
        ProxyRoute("*.example.com", "/", (ONE,)),
        ProxyRoute("api.example.com", "/", (ONE,)),
        ProxyRoute("api.example.com", "/v1", (ONE,)),
    )
    text = compile_proxy(replace(PLAIN, routes=routes), PLACES)
    assert find_rules(text) == [
        "use_backend route0 if host0 path0",
        "use_backend route1 if host1",
        "use_backend route2 if host2",
        "use_backend route3 if path3",
        "use_backend route4",
    ]
    assert "acl host0 req.hdr(host),host_only,lower -m str -- 'api.example.com'" in text
    assert "acl host2 req.hdr(host),host_only,lower -m end -- '.example.com'" in text
    assert "acl path3 path -m beg -- '/v1/'" in text
    assert list_server_backends(replace(PLAIN, routes=routes))["n-2"] == ["route4"]


def test_servers_that_drain_are_disabled_and_settings_become_their_lines() -> None:
    drained = replace(DEFAULT, servers=(replace(ONE, is_draining=True), TWO))
    settings = ProxySettings(
        80, 8443, redirects=True, is_sticky=True, check_path="/health", routes=(drained,)
    )
    text = compile_proxy(settings, PLACES, {"n-2"})
    assert "server n-1 10.0.0.2:8000 check cookie n-1 disabled" in text
    assert "server n-2 10.0.0.3:8000 check cookie n-2 disabled" in text
    assert "bind 0.0.0.0:8443 ssl crt '/run/x/certificate.pem' alpn h2,http/1.1" in text
    assert "http-check send meth GET uri '/health'" in text
    assert "host_only]:8443%[capture.req.uri] code 308" in text
    assert "uid 1900000007" in text
    plain = compile_proxy(PLAIN, PLACES)
    assert not re.search("disabled|cookie|ssl crt|http-check|redirect ", plain)


WORDS = st.text(st.characters(max_codepoint=300), max_size=30)


@given(host=WORDS, path=WORDS, probe=WORDS)
def test_no_word_of_a_tenant_adds_a_line_or_leaves_its_quotes(
    host: str, path: str, probe: str
) -> None:
    route = ProxyRoute(host, path, (ONE,))
    settings = replace(PLAIN, routes=(route,), check_path=probe)
    usual = compile_proxy(
        replace(PLAIN, routes=(ProxyRoute("a", "/b", (ONE,)),), check_path="/c"), PLACES
    )
    try:
        text = compile_proxy(settings, PLACES)
    except ValueError:
        return
    # Quoted words aside, only the lines of a path may be missing: it may be empty.
    known = {re.sub("'[^']*'", "''", line) for line in usual.splitlines()}
    for line in text.splitlines():
        bare = re.sub("'[^']*'", "''", line).replace("-m end", "-m str", 1)
        assert bare in known or bare == "    use_backend route0 if host0"


@pytest.mark.parametrize("text", ["a'b", "a\nbind :1", "a b", "", "-a", "a..b", "ä", "x" * 254])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="not a host"):
        check_host(text)


@pytest.mark.parametrize(
    "text", ["", "a", "/a b", "/'", '/"', "/a\n", "/\\", "/{", "/#", "/" * 256]
)
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="not a path"):
        check_path(text)


def test_hosts_are_lower_case_and_paths_stay() -> None:
    assert check_host("*.API.Example.com") == "*.api.example.com"
    assert check_path("/V1/a%20b") == "/V1/a%20b"


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="needs haproxy")
def test_haproxy_accepts_every_character_that_the_checks_let_pass(tmp_path: Path) -> None:
    path = check_path("/._~!$&()*+,;=:@%-aZ0/")
    routes = (ProxyRoute("*.a-b.example", path, (ONE,)), ProxyRoute("x", "/${HOME}", (TWO,)))
    places = replace(PLACES, root=tmp_path)
    text = compile_proxy(replace(PLAIN, routes=routes, check_path=path, is_sticky=True), places)
    file = tmp_path / "haproxy.cfg"
    file.write_text(text)
    done = subprocess.run(
        ["haproxy", "-c", "-q", "-f", file], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
