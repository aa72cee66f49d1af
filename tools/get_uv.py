"""Print the path of a `uv` to use, fetching the pinned one into .tools/ when none is at hand.

Standard library only, no pip and no venv: this is the first thing that runs in a fresh clone, on whatever Python the
machine has. A `uv` on PATH that is recent enough is taken as it is. Otherwise the pinned wheel comes from a local
folder (UV_FIND_LINKS, PIP_FIND_LINKS), else from the package index (UV_DEFAULT_INDEX, UV_INDEX_URL or
PIP_INDEX_URL, else PyPI), is checked against the sums below, and its one program is put into place in one step.

    python3 tools/get_uv.py [--into .tools]
"""

from __future__ import annotations  # the machine's own python3 may be older than the one we run on

import argparse
import base64
import hashlib
import html.parser
import io
import json
import os
import platform
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Mapping

VERSION = "0.13.8"
OLDEST = (0, 8, 0)  # reads our lock file and knows every option the Makefile uses
WHEELS = {
    "x86_64": (
        f"uv-{VERSION}-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "e18a57b8b352eb7c8feb317b9f6f533c8f0ad9673fd6cf34bbe3cf1a9f6a8984",
    ),
    "aarch64": (
        f"uv-{VERSION}-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64.whl",
        "0b3e8b1a4f5e405e31e2ff33de8af4744831e9f7338539671efbd8c3c94e791d",
    ),
}
PYPI = "https://pypi.org/simple"
TIMEOUT_SECONDS = 60
JSON_INDEX = "application/vnd.pypi.simple.v1+json"  # PEP 691
ACCEPT = f"{JSON_INDEX}, text/html;q=0.5"


class NoUv(Exception):
    """Why there is no uv, and what to type next."""


class Links(html.parser.HTMLParser):
    """The links of an HTML index page (PEP 503)."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--into", default=".tools", help="where the fetched program lives (default: .tools)")
    into = os.path.abspath(parser.parse_args(arguments).into)
    try:
        print(find(into) or fetch(into, os.environ))
    except NoUv as reason:
        print(f"get_uv: {reason}", file=sys.stderr)
        return 1
    return 0


def find(into: str) -> str | None:
    """A recent enough uv on PATH, or the pinned one fetched before."""
    on_path = shutil.which("uv")
    if on_path and version_of(on_path) >= OLDEST:
        return on_path
    fetched = os.path.join(into, "uv")
    return fetched if ".".join(map(str, version_of(fetched))) == VERSION else None


def version_of(program: str) -> tuple[int, ...]:
    """What `uv --version` says; () where it does not run or says something else."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.match(r"uv (\d+)\.(\d+)\.(\d+)", said.stdout)
    return tuple(map(int, match.groups())) if match and said.returncode == 0 else ()


def fetch(into: str, environ: Mapping[str, str]) -> str:
    """Get the pinned wheel, check it, unpack `uv` from it; returns the program's path."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in WHEELS:
        raise NoUv(f"no pinned uv for {sys.platform} {machine}; install uv {VERSION} yourself, then try again")
    name, sha256 = WHEELS[machine]
    wheel = from_folder(name, environ) or from_index(name, environ)
    got = hashlib.sha256(wheel).hexdigest()
    if got != sha256:
        raise NoUv(f"{name} has sha256 {got}, expected {sha256}: not used. Check the index you fetch from")
    return unpack(wheel, into)


def from_folder(name: str, environ: Mapping[str, str]) -> bytes | None:
    """The wheel from the first local folder that has it."""
    folders = re.split(r"[\s,]+", f"{environ.get('UV_FIND_LINKS', '')} {environ.get('PIP_FIND_LINKS', '')}")
    for folder in filter(None, folders):
        path = os.path.join(folder.removeprefix("file://"), name)
        if os.path.isfile(path):
            with open(path, "rb") as wheel:
                return wheel.read()
    return None


def from_index(name: str, environ: Mapping[str, str]) -> bytes:
    index = index_url(environ)
    page_url = f"{index.rstrip('/')}/uv/"
    try:
        page, kind = download(page_url, environ)
        link = link_to(name, page.decode(), kind, page_url)
        if link is None:
            raise NoUv(f"the index {without_login(index)} has no {name}; {what_to_do(name)}")
        return download(link, environ)[0]
    except (OSError, ValueError) as error:  # no route, no such host, a refused certificate, not text
        raise NoUv(f"could not fetch {name} from {without_login(index)}: {error}; {what_to_do(name)}") from None


def index_url(environ: Mapping[str, str]) -> str:
    """The index asked for, without the `name=` that uv allows before it."""
    asked = environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL") or environ.get("PIP_INDEX_URL")
    return re.sub(r"^[A-Za-z0-9._-]+=(?=https?:)", "", asked or PYPI)


def what_to_do(name: str) -> str:
    return (
        "set UV_DEFAULT_INDEX to an index you can reach (and SSL_CERT_FILE to its certificate), "
        f"or put {name} in a folder and set UV_FIND_LINKS to it, or install uv on PATH"
    )


def link_to(name: str, page: str, kind: str, page_url: str) -> str | None:
    """The absolute address of a file on an index page, JSON or HTML."""
    if kind.startswith(JSON_INDEX):
        addresses = [entry["url"] for entry in json.loads(page)["files"] if entry["filename"] == name]
    else:
        links = Links()
        links.feed(page)
        addresses = [link for link in links.found if file_name(link) == name]
    return with_login_of(page_url, urllib.parse.urljoin(page_url, addresses[0])) if addresses else None


def file_name(link: str) -> str:
    return urllib.parse.unquote(urllib.parse.urlsplit(link).path.rsplit("/", 1)[-1])


def download(url: str, environ: Mapping[str, str]) -> tuple[bytes, str]:
    """Body and content type. A login in the address becomes a header, as pip and uv do it."""
    parts = urllib.parse.urlsplit(url)
    request = urllib.request.Request(without_login(url), headers={"Accept": ACCEPT})
    if parts.username:
        login = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        basic = base64.b64encode(login.encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {basic}")
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=trust(environ)) as answer:
        return answer.read(), answer.headers.get("Content-Type", "")


def without_login(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def with_login_of(index: str, link: str) -> str:
    """The link with the index's login where both are on one host: private indexes ask for it twice."""
    ours, theirs = urllib.parse.urlsplit(index), urllib.parse.urlsplit(link)
    if theirs.netloc != ours.netloc.rpartition("@")[2] or theirs.scheme != ours.scheme:
        return link
    return urllib.parse.urlunsplit(theirs._replace(netloc=ours.netloc))


def trust(environ: Mapping[str, str]) -> ssl.SSLContext:
    """The system's certificates (SSL_CERT_FILE and SSL_CERT_DIR included), and pip's file when one is named."""
    context = ssl.create_default_context()
    named = environ.get("PIP_CERT")
    if named and os.path.isfile(named):
        context.load_verify_locations(named)
    return context


def unpack(wheel: bytes, into: str) -> str:
    """Put the wheel's `uv` at into/uv in one step: another `make` may be doing the same."""
    os.makedirs(into, exist_ok=True)
    program = os.path.join(into, "uv")
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive, tempfile.NamedTemporaryFile(dir=into) as part:
        part.write(archive.read(f"uv-{VERSION}.data/scripts/uv"))
        part.flush()
        os.fchmod(part.fileno(), 0o755)
        os.link(part.name, f"{part.name}.new")
    os.replace(f"{part.name}.new", program)
    return program


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
