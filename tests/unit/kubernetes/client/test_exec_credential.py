"""Kubeconfigs whose user has a program for a credential: real programs, run as kubectl runs
them."""

from __future__ import annotations

import base64
import json
import os
import pty
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.base.errors import BadInput, NotLoggedIn
from gpupool.kubernetes.admission import certificates
from gpupool.kubernetes.client import exec_credential
from gpupool.kubernetes.client.connection import load_kubeconfig
from gpupool.kubernetes.client.exec_credential import (
    V1,
    V1BETA1,
    CachedCredential,
    CredentialProgram,
    ExecCredential,
)

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    return tmp_path


def program(place: Path, script: str) -> str:
    """A program beside the kubeconfig; `told` is what it was told, `runs` counts its runs."""
    file = place / "bin" / "helper"
    file.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "told = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        f"open({str(place / 'told')!r}, 'w').write(json.dumps([told, sys.argv[1:], dict(os.environ)]))\n"
        f"open({str(place / 'runs')!r}, 'a').write('.')\n{script}\n"
    )
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return "./bin/helper"


def prints(status: Any, version: str = V1) -> str:
    made = {"apiVersion": version, "kind": "ExecCredential", "status": status}
    return f"print({json.dumps(made)!r})"


def kubeconfig(place: Path, **of_exec: Any) -> Path:
    asks = {"apiVersion": V1, "interactiveMode": "Never", **of_exec}
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}}
    cluster = {
        "server": "https://api.example:6443/",
        "certificate-authority": "ca.crt",
        "extensions": [extension],
    }
    (place / "ca.crt").write_text(
        certificates.renew_certificates(None, ["api.example"], NOW).bundle
    )
    read = {
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "mine"}}
        ],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"exec": asks}}],
    }
    file = place / "config"
    file.write_text(yaml.safe_dump(read))
    return file


def told(place: Path) -> tuple[dict[str, Any], list[str], dict[str, str]]:
    found = json.loads((place / "told").read_text())
    return found[0], found[1], found[2]


def runs(place: Path) -> int:
    return len((place / "runs").read_text())


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_a_token_is_fetched_once_and_sent(place: Path, version: str) -> None:
    command = program(place, prints({"token": "secret"}, version))
    env = [{"name": "AWS_PROFILE", "value": "bank"}]
    made = load_kubeconfig(
        kubeconfig(place, apiVersion=version, command=command, args=["get-token", "x"], env=env)
    )
    assert (made.url, made.namespace) == ("https://api.example:6443", "mine")
    assert [made.read_token(), made.read_token()] == ["secret", "secret"]
    info, words, environ = told(place)
    assert info == {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    assert (words, environ["AWS_PROFILE"], environ["PATH"]) == (
        ["get-token", "x"],
        "bank",
        os.environ["PATH"],
    )
    assert runs(place) == 1


def test_a_program_without_a_folder_is_looked_for_on_path(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(place, prints({"token": "secret"}))
    monkeypatch.setenv("PATH", f"{place / 'bin'}:{os.environ['PATH']}")
    assert load_kubeconfig(kubeconfig(place, command="helper")).read_token() == "secret"


def test_it_is_told_of_the_cluster_where_it_asks_for_that(place: Path) -> None:
    command = program(place, prints({"token": "secret"}))
    load_kubeconfig(kubeconfig(place, command=command, provideClusterInfo=True))
    told_of_it = told(place)[0]["spec"]["cluster"]
    authority = base64.b64decode(told_of_it.pop("certificate-authority-data")).decode()
    assert authority == (place / "ca.crt").read_text()
    assert told_of_it == {"server": "https://api.example:6443/", "config": {"audience": "me"}}


def test_what_has_run_out_and_what_the_server_did_not_take_is_fetched_anew(place: Path) -> None:
    script = "n = len(open(sys.path[0] + '/../runs').read())\n"
    script += "ends = ['2026-01-02T00:01:00Z', '2026-01-02T00:02:00Z', '2027-01-01T00:00:00Z'][min(n, 3) - 1]\n"
    script += "status = {'token': f't{n}', 'expirationTimestamp': ends}\n"
    script += (
        f"print(json.dumps({{'apiVersion': {V1!r}, 'kind': 'ExecCredential', 'status': status}}))"
    )
    now = NOW
    spec = {"apiVersion": V1, "interactiveMode": "Never", "command": program(place, script)}
    fetched = CachedCredential(
        CredentialProgram.from_spec(place, "u", spec, {}), lambda _: None, lambda: now
    )
    assert [fetched.read_token(), fetched.read_token()] == ["t1", "t1"]
    now += timedelta(seconds=60)
    assert [fetched.read_token(), fetched.read_token()] == ["t2", "t2"]
    now += timedelta(seconds=60)
    assert fetched.read_token() == "t3"
    fetched.discard_token()
    assert fetched.read_token() == "t4"


def test_a_certificate_is_shown_from_then_on(place: Path) -> None:
    made = certificates.renew_certificates(None, ["me"], NOW)
    status = {"clientCertificateData": made.serving, "clientKeyData": made.serving_key}
    connection = load_kubeconfig(kubeconfig(place, command=program(place, prints(status))))
    assert connection.read_token() == ""
    seen: list[ExecCredential] = []
    spec = {"apiVersion": V1, "interactiveMode": "Never", "command": "./bin/helper"}
    fetched = CachedCredential(CredentialProgram.from_spec(place, "u", spec, {}), seen.append)
    assert fetched.read_token() == fetched.read_token() == ""
    assert [(one.certificate, one.key) for one in seen] == [(made.serving, made.serving_key)]


def refused(place: Path, kind: type[Exception], **of_exec: Any) -> str:
    with pytest.raises(kind) as caught:
        load_kubeconfig(kubeconfig(place, **of_exec))
    return str(caught.value)


def test_one_that_fails_is_quoted_with_how_it_is_installed(place: Path) -> None:
    said = refused(
        place, NotLoggedIn, command=program(place, "sys.exit('token expired: run aws sso login')")
    )
    assert (
        "user u: its program for credentials ended with 1: token expired: run aws sso login" in said
    )
    assert f"try  {place}/bin/helper" in said
    said = refused(
        place,
        NotLoggedIn,
        command="no-such-helper",
        installHint="\napt install google-auth-plugin\n",
    )
    assert "GP-3001" in said
    assert "cannot be run: No such file or directory" in said
    assert said.endswith("  apt install google-auth-plugin")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("print('hello')", "Expecting value"),
        ("print('[]')", "indices"),
        (
            prints({"token": "x"}, V1BETA1),
            "it is a ExecCredential of client.authentication.k8s.io/v1beta1",
        ),
        (prints({}), "neither a token nor a certificate"),
        (prints({"clientCertificateData": "x"}), "of certificate and key there is one alone"),
        (prints({"token": "x", "expirationTimestamp": "tomorrow"}), "tomorrow"),
    ],
)
def test_one_that_prints_something_else_is_refused(place: Path, script: str, why: str) -> None:
    said = refused(place, NotLoggedIn, command=program(place, script))
    assert "printed no ExecCredential of client.authentication.k8s.io/v1: " in said
    assert why in said


@pytest.mark.parametrize(
    ("of_exec", "why"),
    [
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "aws"}, "aws speaks"),
        ({"command": ""}, "its exec says no command"),
        (
            {"command": "aws", "interactiveMode": None},
            "its exec says no interactiveMode, one of Never",
        ),
    ],
)
def test_a_kubeconfig_that_does_not_say_what_it_must_is_refused(
    place: Path, of_exec: dict[str, Any], why: str
) -> None:
    assert why in refused(place, BadInput, **of_exec)


def test_one_that_has_to_speak_with_people_needs_a_terminal(place: Path) -> None:
    command = program(place, prints({"token": "x"}))
    assert "there is no terminal" in refused(
        place, NotLoggedIn, command=command, interactiveMode="Always"
    )
    assert not (place / "runs").exists()


def test_in_a_terminal_it_may_ask_and_is_heard(place: Path) -> None:
    """The whole way, in a process whose stdin and stderr are a terminal."""
    script = "print('code?', file=sys.stderr, flush=True)\nstatus = {'token': input()}\n"
    script += (
        f"print(json.dumps({{'apiVersion': {V1!r}, 'kind': 'ExecCredential', 'status': status}}))"
    )
    file = kubeconfig(place, command=program(place, script), interactiveMode="IfAvailable")
    main, terminal = pty.openpty()
    line = (
        "from pathlib import Path; import sys; from "
        "gpupool.kubernetes.client.connection import load_kubeconfig as f; "
    )
    words = [sys.executable, "-c", line + "print(f(Path(sys.argv[1])).read_token())", str(file)]
    with subprocess.Popen(
        words, stdin=terminal, stderr=terminal, stdout=subprocess.PIPE, text=True
    ) as process:
        heard = b""
        while b"code?" not in heard:
            heard += os.read(main, 100)
        os.write(main, b"s3cret\n")
        assert process.communicate()[0] == "s3cret\n"
    os.close(main)
    os.close(terminal)
    assert told(place)[0]["spec"]["interactive"] is True


def test_one_that_hangs_and_speaks_with_nobody_is_ended(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_credential, "SILENT_SECONDS", 0.2)
    said = refused(place, NotLoggedIn, command=program(place, "import time; time.sleep(3600)"))
    assert "has printed nothing for 0 s" in said
