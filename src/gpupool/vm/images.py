"""The store of read-only disk images: one file for each digest, below the pool's directory.

An image is checked, then copied; a format that no VM starts from is converted. An image that names
other files below it is refused: they could be secret, and the copy would show them to every
tenant. The record of an image is written last, so a copy without a record is no image.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Final

from gpupool.base.durable import write_durably
from gpupool.base.errors import BadImage, NameTaken, NotFound
from gpupool.base.ids import check_name
from gpupool.vm.disk import DIRECT_FORMATS, convert_image, inspect_image

#: Letters of a digest that are enough to name an image.
SHORTEST_DIGEST: Final = 8
_READ_BY_ALL: Final = 0o444


@dataclass(frozen=True)
class StoredImage:
    """An image in the store; `digest` is the SHA-256 of its file."""

    name: str
    digest: str
    format: str
    disk_bytes: int
    file_bytes: int


class ImageStore:
    """The images below one directory. One writer at a time is enough: names are unique."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def root(self) -> Path:
        """The directory of the store; it need not exist."""
        return self._root

    def locate(self, image: StoredImage) -> Path:
        """Return the path of an image's file."""
        return self._root / f"{image.digest}.{image.format}"

    def list_images(self) -> list[StoredImage]:
        """List the images by name."""
        found: list[StoredImage] = []
        for path in self._root.glob("*.json") if self._root.is_dir() else ():
            found.append(StoredImage(**json.loads(path.read_text(encoding="utf-8"))))
        return sorted(found, key=lambda image: image.name)

    def find_image(self, name: str) -> StoredImage:
        """Find an image by its name or the begin of its digest. Raises NotFound."""
        images = self.list_images()
        for image in images:
            if image.name == name:
                return image
        if len(name) >= SHORTEST_DIGEST:
            matching = [image for image in images if image.digest.startswith(name)]
            if len(matching) == 1:
                return matching[0]
        raise NotFound(
            f"no image {name!r} in the store, and no file of this name here",
            hint="gpupool vm image list",
        )

    def check_name_free(self, name: str) -> None:
        """Raise NameTaken if an image has this name."""
        for image in self.list_images():
            if image.name == name:
                raise NameTaken(
                    f"another image has the name {name} (sha256 {image.digest[:12]})",
                    hint="give this one another name: --name ANOTHER",
                )

    def import_file(self, source: Path, name: str | None = None) -> StoredImage:
        """Check and store an image. Idempotent; blocks for a copy of the file.

        Args:
            source: The file.
            name: Name of the image; the file's own without its suffix if it is None.

        Raises:
            BadImage: The file is no disk image, or not one that stands alone.
            NameTaken: Another image has the name.
        """
        wanted = check_name(name or source.name.split(".")[0], "image")
        image = inspect_image(source)
        _check_alone(source, image.backing)
        self._root.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._root.chmod(0o755)  # whatever the umask: VMs of every tenant read the images
        part = self._root / f".import-{os.getpid()}"
        try:
            stored_format = image.format
            if image.format in DIRECT_FORMATS:
                shutil.copyfile(source, part)
                # The file may have been replaced since it was checked.
                _check_alone(source, inspect_image(part).backing)
            else:
                convert_image(source, part)
                stored_format = "qcow2"
            return self._store_part(part, wanted, stored_format, image.disk_bytes)
        finally:
            part.unlink(missing_ok=True)

    def _store_part(self, part: Path, name: str, form: str, disk_bytes: int) -> StoredImage:
        with open(part, "rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        made = StoredImage(name, digest, form, disk_bytes, part.stat().st_size)
        for other in self.list_images():
            if other.name == name and other.digest != digest:
                raise NameTaken(
                    f"another image has the name {name} (sha256 {other.digest[:12]})",
                    hint="gpupool vm image import FILE --name ANOTHER",
                )
        part.chmod(_READ_BY_ALL)
        os.replace(part, self.locate(made))
        content = json.dumps(asdict(made), indent=1).encode()
        write_durably(self._root / f"{digest}.json", content, mode=_READ_BY_ALL)
        return made


def _check_alone(source: Path, other: str) -> None:
    if other:
        raise BadImage(
            f"{source} is an overlay on {other}; an image stands alone",
            hint=f"qemu-img convert -O qcow2 {source} WHOLE.qcow2",
        )
