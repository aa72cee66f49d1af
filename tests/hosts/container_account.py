"""A Unix account with subordinate ids, an image made from files of this machine, and a pool of root
that the account uses: what a test of real containers needs. No network, no registry."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpupool.mechanisms.containers.accounts import MissingPart, find_account
from gpupool.mechanisms.containers.images import AccountPodman
from gpupool.mechanisms.containers.podman import find_podman
from tests.e2e.pool_fixture import GPUPOOL, RealPool

IMAGE = "localhost/gpupool-test:1"
#: Prints the card's memory in MiB and what an allocation of 3000 MiB answers; then ends or waits.
#: With `serve` it answers HTTP on the socket `nb` of the job, with the path that was asked for.
PROBE = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
static int serve(const char *run)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[200], request[4096], path[1000];
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(name, sizeof name, "%s/nb.root", run);
    if (open(name, O_CREAT | O_WRONLY, 0600) < 0) return 7;
    snprintf(address.sun_path, sizeof address.sun_path, "%s/nb.sock", run);
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 9)) return 6;
    for (;;) {
        int client = accept(listener, NULL, NULL);
        ssize_t size = read(client, request, sizeof request - 1);
        request[size < 0 ? 0 : size] = 0;
        if (sscanf(request, "GET %999s", path) == 1)
            dprintf(client, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(path), path);
        close(client);
    }
}
int main(int count, char **words)
{
    if (count > 1 && !strcmp(words[1], "serve")) return serve(getenv("GPUPOOL_RUN"));
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context;
    if (!cuda) { fprintf(stderr, "%s\n", dlerror()); return 9; }
    int (*init)(unsigned) = dlsym(cuda, "cuInit");
    int (*create)(void **, unsigned, int) = dlsym(cuda, "cuCtxCreate_v2");
    int (*info)(size_t *, size_t *) = dlsym(cuda, "cuMemGetInfo_v2");
    int (*allocate)(unsigned long long *, size_t) = dlsym(cuda, "cuMemAlloc_v2");
    unsigned long long place;
    size_t available, total;
    if (init(0) || create(&context, 0, 0) || info(&available, &total)) return 8;
    printf("%zu %d\n", total >> 20, allocate(&place, (size_t)3000 << 20));
    fflush(stdout);
    if (count > 1) sleep(atoi(words[1]));
    return 0;
}
"""


def find_missing_part() -> str:
    """Why containers cannot be tested here; empty where they can."""
    if os.geteuid() != 0:
        return "makes an account, which needs root"
    for program in ("cc", "setpriv", "useradd", "/bin/busybox"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    found = find_podman()
    return found.reason if isinstance(found, MissingPart) else ""


@contextmanager
def make_account(home: Path) -> Iterator[AccountPodman]:
    """An account with subordinate ids and its Podman; gone afterwards."""
    name = f"gpt{os.getpid()}"
    first = 600_000_000 + os.getpid() * 70_000 % 1_000_000_000
    ids = f"{first}-{first + 65_535}"
    run("useradd", "--no-create-home", "--home-dir", str(home), "--shell", "/bin/sh", name)
    try:
        run("usermod", "--add-subuids", ids, "--add-subgids", ids, name)
        entry = pwd.getpwnam(name)
        settings = home / ".config/containers"
        settings.mkdir(parents=True)
        # Works below any file system; overlay does not work on one that is an overlay itself.
        (settings / "storage.conf").write_text('[storage]\ndriver = "vfs"\n')
        run("chown", "-R", f"{entry.pw_uid}:{entry.pw_gid}", str(home))
        installation = find_podman()
        account = find_account(entry.pw_uid, entry.pw_gid)
        assert not isinstance(installation, MissingPart)
        assert not isinstance(account, MissingPart)
        yield AccountPodman(installation, account)
    finally:
        run("userdel", name)
        shutil.rmtree(f"/tmp/podman-run-{entry.pw_uid}", ignore_errors=True)
        shutil.rmtree(f"/tmp/containers-user-{entry.pw_uid}", ignore_errors=True)


def run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def build_archive(
    podman: AccountPodman, place: Path, name: str = IMAGE, *, musl: bool = False
) -> Path:
    """An archive as `podman save` writes it: a shell, the probe, and the C library of this machine.

    With `musl` an image that has musl's loader and no glibc.
    """
    root = place / "root"
    (root / "bin").mkdir(parents=True)
    (root / "tmp").mkdir(mode=0o1777)
    shutil.copy2("/bin/busybox", root / "bin/busybox")
    for tool in ("cat", "env", "head", "id", "ls", "sh", "sleep", "true"):
        (root / "bin" / tool).symlink_to("busybox")
    if musl:
        (root / "lib").mkdir()
        (root / "lib/ld-musl-x86_64.so.1").write_bytes(b"\x7fELF")
    else:
        _add_probe(root, place)
    run("tar", "-C", str(root), "-cf", str(place / "root.tar"), ".")
    archive = place / "image.tar"
    for path in (place, place / "root.tar"):
        os.chown(path, podman.account.uid, podman.account.gid)
    for words in (
        ("import", "--quiet", str(place / "root.tar"), name),
        ("save", "--quiet", f"--output={archive}", name),
        ("rmi", "--force", name),
    ):
        answer = podman.call(*words)
        assert answer.code == 0, answer
    return archive


def _add_probe(root: Path, place: Path) -> None:
    source = place / "probe.c"
    source.write_text(PROBE)
    run("cc", "-O1", "-o", str(root / "bin/probe"), str(source))
    for line in run("ldd", str(root / "bin/probe")).splitlines():
        path = next((word for word in line.split() if word.startswith("/")), None)
        if path is not None:
            target = root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(Path(path).resolve(), target)
    # What the stand-ins of the driver need beside it.
    folder = Path(run("cc", "-print-file-name=libc.so.6").strip()).resolve().parent
    for name in ("libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6"):
        if (folder / name).exists():
            target = root / str(folder).lstrip("/") / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2((folder / name).resolve(), target)


class AccountPool(RealPool):
    """A pool of root whose commands an ordinary account types."""

    def __init__(self, state_dir: Path, podman: AccountPodman) -> None:
        super().__init__(state_dir, "2xL40S")
        self.account = podman.account
        # That of the tests may be closed to the account: its Podman then does not start.
        self.environ.pop("TMPDIR", None)

    def type(self, *words: str, **settings: Any) -> subprocess.CompletedProcess[str]:
        """One command of the account, whatever it answers."""
        return subprocess.run(
            self.make_words(*words),
            **{
                "stdin": subprocess.DEVNULL,
                "capture_output": True,
                "timeout": 60,
                "text": True,
                "check": False,
                "cwd": "/",
                "env": {**self.environ, "HOME": self.account.home},
                **settings,
            },
        )

    def submit(self, *words: str) -> None:
        """A job of the account that is accepted."""
        done = self.type("submit", *words)
        assert done.returncode == 0, done.stderr

    def make_words(self, *words: str) -> list[str]:
        """The account may read the files of the Python that runs the tests, and no more."""
        readable = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
        uid = str(self.account.uid)
        gid = str(self.account.gid)
        identity = ("--reuid", uid, "--regid", gid, "--clear-groups")
        return ["setpriv", *identity, *readable, *GPUPOOL, *words]


class OwnAccountPool(AccountPool):
    """A pool of the account itself."""

    def run(self, *words: str, **settings: Any) -> subprocess.CompletedProcess[str]:
        return self.type(*words, **settings)
