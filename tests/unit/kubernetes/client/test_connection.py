"""A kubeconfig or a pod's service account says how to reach the API server."""

from __future__ import annotations

import base64
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.base.errors import BadInput
from gpupool.kubernetes.admission.certificates import renew_certificates
from gpupool.kubernetes.client.connection import load_kubeconfig, load_service_account

AUTHORITY = renew_certificates(None, ["api.example"], datetime(2026, 1, 2, tzinfo=UTC)).bundle


def write_kubeconfig(folder: Path, user: dict[str, Any], **cluster: Any) -> Path:
    """A kubeconfig with one cluster, whose authority is in a file beside it."""
    (folder / "ca.crt").write_text(AUTHORITY)
    server = {"server": "https://api.example:6443/", "certificate-authority": "ca.crt", **cluster}
    read = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "u", "user": user}],
    }
    file = folder / "config"
    file.write_text(yaml.safe_dump(read))
    return file


def mount_account(folder: Path) -> Path:
    """What a kubelet mounts into a pod."""
    for name, text in (("token", "t1\n"), ("ca.crt", AUTHORITY), ("namespace", "space\n")):
        (folder / name).write_text(text)
    return folder


def test_load_kubeconfig_reads_server_token_and_default_namespace(tmp_path: Path) -> None:
    found = load_kubeconfig(write_kubeconfig(tmp_path, {"token": "secret"}))
    assert (found.url, found.read_token(), found.namespace) == (
        "https://api.example:6443",
        "secret",
        "default",
    )
    assert found.tls.verify_mode is ssl.CERT_REQUIRED
    assert len(found.tls.get_ca_certs()) == 1


def test_load_kubeconfig_takes_authority_in_base64_before_the_file(tmp_path: Path) -> None:
    encoded = base64.b64encode(AUTHORITY.encode()).decode()
    file = write_kubeconfig(
        tmp_path,
        {},
        **{"certificate-authority": "missing.crt", "certificate-authority-data": encoded},
    )
    assert len(load_kubeconfig(file).tls.get_ca_certs()) == 1


def test_token_file_is_read_again_for_every_request(tmp_path: Path) -> None:
    found = load_kubeconfig(write_kubeconfig(tmp_path, {"tokenFile": "renewed"}))
    for token in ("first", "second"):
        (tmp_path / "renewed").write_text(f"{token}\n")
        assert found.read_token() == token


def test_load_kubeconfig_without_verification_checks_no_host(tmp_path: Path) -> None:
    file = write_kubeconfig(tmp_path, {}, **{"insecure-skip-tls-verify": True})
    tls = load_kubeconfig(file).tls
    assert (tls.check_hostname, tls.verify_mode) == (False, ssl.CERT_NONE)


def test_load_kubeconfig_refuses_auth_provider_and_a_missing_user(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="user u gets its credential from auth-provider"):
        load_kubeconfig(write_kubeconfig(tmp_path, {"auth-provider": {"name": "gcp"}}))
    file = write_kubeconfig(tmp_path, {})
    file.write_text(file.read_text().replace("user: u\n", "user: other\n"))
    with pytest.raises(BadInput, match=r"config is no kubeconfig that can be read: KeyError"):
        load_kubeconfig(file)


def test_load_service_account_puts_an_ipv6_address_in_brackets(tmp_path: Path) -> None:
    account = mount_account(tmp_path)
    assert load_service_account("fd00::1", "", account).url == "https://[fd00::1]:443"
    found = load_service_account("10.0.0.1", "6443", account)
    assert (found.url, found.namespace, found.read_token()) == (
        "https://10.0.0.1:6443",
        "space",
        "t1",
    )


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_load_service_account_outside_of_a_pod_is_refused(tmp_path: Path, missing: str) -> None:
    account = mount_account(tmp_path)
    (account / missing).unlink()
    with pytest.raises(BadInput, match="this is not a pod") as refusal:
        load_service_account("10.0.0.1", "443", account)
    assert refusal.value.hint == "--kubeconfig FILE"
