"""A database over TLS: the certificate of this process opens it, and is replaced without a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.base.clock import wall_ns
from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.machines.certificates import (
    Authority,
    issue_certificate,
    join_trusted,
    make_authority,
)
from gpupool.network.ovn.credentials import show_certificate
from gpupool.network.ovn.northbound_database import NorthboundDatabase
from tests.support.claims import claim_port
from tests.support.ovsdb import find_missing_part, northbound_server
from tests.support.supervised import until

pytest.importorskip("cryptography")
pytest.importorskip("ovs")
pytestmark = pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part())


def write_files(directory: Path, authority: Authority, trusted: str) -> None:
    issued = issue_certificate(authority, "server", wall_ns())
    files = {"trusted": trusted, "key": issued.private_key, "certificate": issued.certificate}
    for name, text in files.items():
        fresh = directory / f"{name}.new"
        fresh.write_text(text)
        fresh.rename(directory / f"{name}.pem")


def show(authority: Authority, trusted: str) -> None:
    issued = issue_certificate(authority, "client", wall_ns())
    show_certificate(issued.certificate, issued.private_key, trusted)


def test_both_sides_follow_a_successor_of_their_authority_without_a_restart(tmp_path: Path) -> None:
    old = make_authority("pool", wall_ns())
    new = make_authority("pool", wall_ns())
    both = join_trusted([old, new], wall_ns())
    port = claim_port()
    write_files(tmp_path, old, old.certificate)
    options = [
        f"--remote=pssl:{port}:127.0.0.1",
        f"--private-key={tmp_path / 'key.pem'}",
        f"--certificate={tmp_path / 'certificate.pem'}",
        f"--ca-cert={tmp_path / 'trusted.pem'}",
    ]

    def is_open() -> bool:
        try:
            NorthboundDatabase(f"ssl:127.0.0.1:{port}", "p").close()
        except NetworkingUnavailable:
            return False
        return True

    with northbound_server(*options):
        show(old, old.certificate)
        until(is_open)
        # Another authority's certificate is refused, and refuses the server in turn.
        show(new, both)
        assert not is_open()
        write_files(tmp_path, old, both)
        until(is_open)
        write_files(tmp_path, new, both)
        show(old, both)
        until(is_open)
        write_files(tmp_path, new, new.certificate)
        until(lambda: not is_open())
        show(new, new.certificate)
        assert is_open()
