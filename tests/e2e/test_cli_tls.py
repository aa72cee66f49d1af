"""A pool beyond loopback's plain HTTP: its certificate is checked, a token is needed, a session is
kept."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import NotLoggedIn, PoolNotRunning
from gpupool.client.transport import Api
from tests.e2e.pool_fixture import RealPool
from tests.support.claims import claim_port


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gpupool test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    (folder / "pool.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "pool.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    return folder / "pool.pem", folder / "pool.key"


def test_a_pool_behind_tls_is_reached_only_with_its_certificate_and_a_token(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    url = f"https://127.0.0.1:{claim_port()}"
    pool = RealPool(tmp_path / "pool")
    pool.up(
        "--sim",
        "1xT4",
        "--listen",
        url.removeprefix("https://"),
        "--tls-cert",
        str(cert),
        "--tls-key",
        str(key),
    )
    try:
        with pytest.raises(PoolNotRunning, match=r"self.signed certificate"):
            Api(ClientSettings(url=url)).request("GET", "whoami")
        with pytest.raises(NotLoggedIn):
            Api(ClientSettings(url=url, ca_file=str(cert))).request("GET", "whoami")
        token = pool.do("token", "create").strip()
        with Api(ClientSettings(url=url, ca_file=str(cert), token=token)) as api:
            assert [api.request("GET", "whoami")["local"] for _ in range(2)] == [False, False]
        (tmp_path / "token").write_text(token)
        pool.environ.pop("GPUPOOL_STATE_DIR")
        pool.do("login", url, "--ca-file", str(cert), "--token-file", str(tmp_path / "token"))
        assert pool.json("whoami")["local"] is False
        pool.environ["GPUPOOL_STATE_DIR"] = str(pool.state_dir)
        pool.do("down")
        assert url in pool.up(), "a start without options listened on something weaker"
        with Api(ClientSettings(url=url, ca_file=str(cert), token=token)) as api:
            assert api.request("GET", "whoami")["local"] is False
    finally:
        pool.environ["GPUPOOL_STATE_DIR"] = str(tmp_path / "pool")
        pool.do("down", "--purge", "--yes")
