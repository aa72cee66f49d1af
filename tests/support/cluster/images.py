"""Container images without a registry: one layer of a static busybox and files of the machine, as
an OCI archive."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.cluster.directory import ClusterError

BUSYBOX = Path("/bin/busybox")
APPLETS = (
    "sh",
    "sleep",
    "echo",
    "cat",
    "ls",
    "env",
    "id",
    "ps",
    "true",
    "false",
    "date",
    "head",
    "tail",
    "grep",
    "sed",
)
FOLDERS = ("bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "usr/bin")
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
OCI = "application/vnd.oci.image"
INTERPRETED = b"/ld-linux"


@dataclass(frozen=True)
class Image:
    """`files` puts files of this machine at places in the image; `user` is whom it runs as, as an
    image says it."""

    name: str
    command: Sequence[str] = ("/bin/sh",)
    files: Mapping[str, Path] = field(default_factory=dict)
    user: str = ""


PAUSE = Image("gpupool.test/pause:1", ("/bin/sleep", "2147483647"))
SHELL = Image("gpupool.test/busybox:1")


def architecture() -> str:
    return MACHINES.get(platform.machine(), platform.machine())


def archive(image: Image) -> bytes:
    """The image as `ctr images import` takes it: the same bytes for the same content."""
    layer = _tar([*_system(), *_added(image)])
    configuration = _json(_configuration(image, layer))
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": _descriptor(f"{OCI}.config.v1+json", configuration),
            "layers": [_descriptor(f"{OCI}.layer.v1.tar", layer)],
        }
    )
    entry = {
        **_descriptor(f"{OCI}.manifest.v1+json", manifest),
        "annotations": {"io.containerd.image.name": image.name},
        "platform": {"architecture": architecture(), "os": "linux"},
    }
    index = _json({"schemaVersion": 2, "mediaType": f"{OCI}.index.v1+json", "manifests": [entry]})
    blobs = [
        _file(f"blobs/sha256/{_sha256(blob)}", blob) for blob in (layer, configuration, manifest)
    ]
    layout = _file("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
    return _tar([*blobs, _file("index.json", index), layout])


def _configuration(image: Image, layer: bytes) -> object:
    return {
        "architecture": architecture(),
        "os": "linux",
        "config": {"Cmd": list(image.command), "Env": ["PATH=/bin:/usr/bin"], "User": image.user},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_sha256(layer)}"]},
    }


def _system() -> Iterable[tuple[tarfile.TarInfo, bytes]]:
    for folder in FOLDERS:
        info = tarfile.TarInfo(folder)
        info.mode, info.type = 0o755, tarfile.DIRTYPE
        yield info, b""
    yield _file("bin/busybox", _busybox(), 0o755)
    yield _file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
    for applet in APPLETS:
        info = tarfile.TarInfo(f"bin/{applet}")
        info.mode, info.type, info.linkname = 0o777, tarfile.SYMTYPE, "busybox"
        yield info, b""


def _added(image: Image) -> Iterable[tuple[tarfile.TarInfo, bytes]]:
    for place, source in image.files.items():
        yield _file(place.lstrip("/"), source.read_bytes(), source.stat().st_mode & 0o777)


def _busybox() -> bytes:
    if not BUSYBOX.exists() or INTERPRETED in (content := BUSYBOX.read_bytes())[:4096]:
        raise ClusterError(f"images need a static {BUSYBOX}; apt-get install busybox-static")
    return content


def _file(place: str, content: bytes, mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(place)
    info.size, info.mode = len(content), mode
    return info, content


def _tar(entries: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def _json(content: object) -> bytes:
    return json.dumps(content, sort_keys=True).encode()


def _descriptor(media_type: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": f"sha256:{_sha256(blob)}", "size": len(blob)}


def _sha256(blob: bytes) -> str:
    return hashlib.sha256(blob).hexdigest()
