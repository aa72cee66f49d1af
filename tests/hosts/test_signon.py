"""Logins by a real slapd (Debian's package): StartTLS, LDAPS, groups, escaping, leavers.

Needs root for nothing: the server is this test's own, on a port of loopback, with a certificate of
its own authority.
"""

from __future__ import annotations

import datetime
import ipaddress
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gpupool.signon.local.passwords import PasswordHashes
from tests.support.api import RunningApp, running_app
from tests.support.claims import claim_port
from tests.support.cluster.waiting import wait_until

SLAPD = shutil.which("slapd") or "/usr/sbin/slapd"
SLAPADD = shutil.which("slapadd") or "/usr/sbin/slapadd"
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(not Path(SLAPD).exists(), reason="slapd lacks: apt-get install slapd"),
]
BASE = "dc=example,dc=org"
SECRET = "secret of the account that searches"
CONFIGURATION = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload retcode
pidfile {folder}/slapd.pid
TLSCertificateFile {folder}/server.pem
TLSCertificateKeyFile {folder}/server.key
security tls=1
database mdb
suffix "{base}"
rootdn "cn=admin,{base}"
rootpw "root of the directory"
directory {folder}/data
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="cn=search,{base}" read by * none
database mdb
suffix "{trouble}"
rootdn "cn=admin,{trouble}"
directory {folder}/trouble
access to * by dn.exact="cn=search,{base}" read by * none
overlay retcode
retcode-parent "ou=people,{trouble}"
{answers}
"""
#: A part of the directory whose persons are found, and whose passwords it answers with a trouble of
#: its own, by slapo-retcode(5): codes of RFC 4511, A.1, or none.
TROUBLE = "dc=trouble,dc=org"
ANSWERS = {
    "timelimit": "3",
    "busy": "51",
    "unavailable": "52",
    "unwilling": "53",
    "other": "80",
    "gone": "52 flags=pre-disconnect",
}
PEOPLE = """\
dn: {base}
objectClass: organization
objectClass: dcObject
o: example
dc: example

dn: cn=search,{base}
objectClass: applicationProcess
objectClass: simpleSecurityObject
cn: search
userPassword: {secret}

dn: uid=alice,{base}
objectClass: inetOrgPerson
uid: alice
cn: Alice
sn: A
userPassword: password of alice

dn: uid=zhang*(wei),{base}
objectClass: inetOrgPerson
uid: zhang*(wei)
cn:: 5byg5Lyf
sn: Z
userPassword: password of zhang

dn: cn=gpu-nlp,{base}
objectClass: groupOfNames
cn: gpu-nlp
member: uid=alice,{base}
member: uid=zhang*(wei),{base}

dn: cn=gpu-leads,{base}
objectClass: groupOfNames
cn: gpu-leads
member: uid=alice,{base}
"""


TROUBLED_PEOPLE = """\
dn: {trouble}
objectClass: organization
objectClass: dcObject
o: trouble
dc: trouble

dn: ou=people,{trouble}
objectClass: organizationalUnit
ou: people
"""
TROUBLED_PERSON = """
dn: uid={name},ou=people,{trouble}
objectClass: inetOrgPerson
uid: {name}
cn: {name}
sn: T
"""


@dataclass
class Directory:
    """A running slapd."""

    folder: Path
    port: int
    tls_port: int
    authority: str

    def settings(self, **changes: Any) -> dict[str, Any]:
        known = {
            "url": f"ldap://127.0.0.1:{self.port}",
            "bind_dn": f"cn=search,{BASE}",
            "base_dn": BASE,
            "user_filter": "(&(objectClass=inetOrgPerson)(uid={user}))",
            "ca_certificates": self.authority,
        }
        return known | changes

    def change(self, ldif: str) -> None:
        command = ["ldapmodify", "-x", "-ZZ", "-H", f"ldap://127.0.0.1:{self.port}"]
        command += ["-D", f"cn=admin,{BASE}", "-w", "root of the directory"]
        environment = {"LDAPTLS_CACERT": str(self.folder / "authority.pem"), "PATH": "/usr/bin"}
        subprocess.run(command, input=ldif, text=True, check=True, env=environment)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    folder = tmp_path_factory.mktemp("slapd")
    for name in ("data", "trouble"):
        (folder / name).mkdir()
    authority = make_certificates(folder)
    configuration = folder / "slapd.conf"
    answers = [f"retcode-item uid={name} {answer} op=bind" for name, answer in ANSWERS.items()]
    facts = {"folder": folder, "base": BASE, "trouble": TROUBLE, "answers": "\n".join(answers)}
    configuration.write_text(CONFIGURATION.format(**facts))
    add_entries(configuration, BASE, PEOPLE.format(base=BASE, secret=SECRET))
    troubled = [TROUBLED_PERSON.format(name=name, trouble=TROUBLE) for name in ANSWERS]
    add_entries(configuration, TROUBLE, TROUBLED_PEOPLE.format(trouble=TROUBLE) + "".join(troubled))
    running = Directory(folder, claim_port(), claim_port(), authority)
    urls = f"ldap://127.0.0.1:{running.port} ldaps://127.0.0.1:{running.tls_port}"
    server = subprocess.Popen(
        [SLAPD, "-d", "0", "-f", str(configuration), "-h", urls], stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: is_listening(running.tls_port), 60.0, lambda: "slapd does not listen")
        yield running
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory, directory: Directory) -> Iterator[RunningApp]:
    with running_app(tmp_path_factory.mktemp("pool")) as running:
        running.services.signon.local._hashes = PasswordHashes(passes=1, memory_kib=64)
        body = {"ldap": directory.settings(), "secret": SECRET}
        assert running.client().put("sso/providers/staff", body).status == 200
        rules = [
            {"group": "gpu-leads", "role": "tenant-admin", "tenant": "default"},
            {"group": "gpu-nlp", "role": "user", "tenant": "default"},
        ]
        assert running.client().put("sso/rules", {"rules": rules}).status == 200
        yield running


def log_in(pool: RunningApp, user: str, password: str, provider: str = "staff") -> Any:
    body = {"user": user, "password": password, "provider": provider}
    return pool.client(None).post("/login/local", body)


def test_the_first_test_of_the_directory_counts_its_persons(pool: RunningApp) -> None:
    found = pool.client().post("sso/providers/staff/test").json()
    assert found == {
        "ok": True,
        "steps": ["connected with TLS and bound; 2 persons below the base"],
    }


def test_a_password_of_the_directory_gives_the_rights_of_its_groups(pool: RunningApp) -> None:
    login = log_in(pool, "alice", "password of alice").json()
    assert (login["user"], login["role"]) == ("alice", "tenant-admin")
    named = log_in(pool, "zhang*(wei)", "password of zhang").json()
    assert (named["user"], named["role"]) == ("zhang--wei", "user")


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("alice", "wrong"),
        ("*", "password of alice"),
        ("alice)(uid=*", "password of alice"),
        ("al*", "password of alice"),
        ("nobody-here", "x"),
    ],
)
def test_wrong_names_and_filters_in_names_are_refused(
    user: str, password: str, pool: RunningApp
) -> None:
    assert log_in(pool, user, password).code == "GP-3042"


@pytest.mark.parametrize("name", ANSWERS)
def test_a_trouble_of_the_directory_is_no_wrong_password(
    name: str, pool: RunningApp, directory: Directory
) -> None:
    body = {"ldap": directory.settings(base_dn=TROUBLE), "secret": SECRET}
    assert pool.client().put("sso/providers/troubled", body).status == 200
    # More than lock a name.
    for _ in range(6):
        refused = log_in(pool, name, "password", "troubled")
        assert (refused.status, refused.code) == (503, "GP-5060"), refused.body


def test_a_nul_in_a_name_reaches_no_directory(pool: RunningApp) -> None:
    assert log_in(pool, "\0alice", "password of alice").code == "GP-1010"


def test_ldaps_works_and_another_authority_is_refused(
    pool: RunningApp, directory: Directory
) -> None:
    admin = pool.client()
    url = f"ldaps://127.0.0.1:{directory.tls_port}"
    secure = {"ldap": directory.settings(url=url), "secret": SECRET}
    admin.put("sso/providers/secure", secure)
    assert admin.post("sso/providers/secure/test").json()["ok"]
    foreign = {"ldap": directory.settings(url=url, ca_certificates=""), "secret": SECRET}
    admin.put("sso/providers/foreign", foreign)
    found = admin.post("sso/providers/foreign/test").json()
    assert (found["ok"], "certificate" in found["steps"][-1].lower()) == (False, True)
    wrong = {"ldap": directory.settings(), "secret": "wrong"}
    admin.put("sso/providers/wrong", wrong)
    assert "refuses cn=search" in admin.post("sso/providers/wrong/test").json()["steps"][-1]


def test_leavers_are_disabled_and_lost_groups_are_followed(
    pool: RunningApp, directory: Directory
) -> None:
    admin = pool.client()
    alice = log_in(pool, "alice", "password of alice").json()["token"]
    zhang = log_in(pool, "zhang*(wei)", "password of zhang").json()["token"]
    directory.change(
        f"dn: uid=zhang*(wei),{BASE}\nchangetype: delete\n\n"
        f"dn: cn=gpu-leads,{BASE}\nchangetype: delete\n"
    )
    dry = admin.post("sso/sync", {"provider": "staff", "dry_run": True}).json()
    assert [row["user"] for row in dry["leavers"]] == ["zhang--wei"]
    assert pool.client(None, token=zhang).get("whoami").status == 200
    done = admin.post("sso/sync", {"provider": "staff", "jobs": "stop"}).json()
    assert (done["checked"], len(done["leavers"])) == (2, 1)
    assert pool.client(None, token=zhang).get("whoami").status == 401
    assert admin.get("users/zhang--wei").json()["disabled"] is True
    assert pool.client(None, token=alice).get("whoami").status == 401, "its role changed"
    assert admin.get("users/alice").json()["role"] == "user"


def test_a_directory_that_is_down_disables_no_user(pool: RunningApp, directory: Directory) -> None:
    admin = pool.client()
    settings = directory.settings(url=f"ldap://127.0.0.1:{claim_port()}")
    admin.put("sso/providers/staff", {"ldap": settings})
    assert admin.post("sso/sync", {"provider": "staff"}).code == "GP-5060"
    assert admin.get("users/alice").json()["disabled"] is False
    assert log_in(pool, "alice", "password of alice").code == "GP-5060"
    assert admin.get("whoami").json()["role"] == "admin"


def add_entries(configuration: Path, suffix: str, entries: str) -> None:
    command = [SLAPADD, "-f", str(configuration), "-b", suffix]
    subprocess.run(command, input=entries, text=True, check=True, timeout=60)


def make_certificates(folder: Path) -> str:
    """Write a server's certificate for 127.0.0.1 and its authority; return the authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    (folder / "server.pem").write_text(pem)
    (folder / "authority.pem").write_text(pem)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / "server.key").write_bytes(private)
    return pem


def is_listening(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
