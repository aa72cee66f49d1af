"""The shape of a virtual machine in a submission and in the work of a node."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from gpupool.model.launch import LONGEST_PATH
from gpupool.model.vm import (
    LARGEST_CLOUD_INIT,
    LARGEST_RAM_BYTES,
    MIB,
    MOST_CPUS,
    SMALLEST_RAM_BYTES,
    VmFirmware,
    VmSpec,
)
from gpupool.wire.common import WireModel

#: An id of a job, as `base.ids` makes them.
JobId = Annotated[str, Field(pattern=r"^j-[a-z0-9]{1,14}$")]
FilePath = Annotated[str, Field(min_length=1, max_length=LONGEST_PATH)]
#: Characters of a public key of OpenSSH: RSA with 16384 bits takes 2.8 KB.
SshKey = Annotated[str, Field(min_length=1, max_length=8192)]


class VmIn(WireModel):
    """A virtual machine: its sizes, and what it boots from. Paths are those of its node."""

    # Strict: a number in quotes or a fraction of a processor is an error of the client.
    model_config = ConfigDict(strict=True)

    cpus: int = Field(ge=1, le=MOST_CPUS)
    ram_bytes: int = Field(ge=SMALLEST_RAM_BYTES, le=LARGEST_RAM_BYTES)
    image: FilePath | None = Field(None, description="disk image, which is not written to")
    kernel: FilePath | None = Field(None, description="boot this kernel without a boot loader")
    initrd: FilePath | None = None
    append: str = Field("", max_length=2048, description="command line of the kernel")
    ssh_keys: list[SshKey] = Field(default_factory=list, max_length=64)
    cloud_init: str | None = Field(
        None, max_length=LARGEST_CLOUD_INIT, description="user data for cloud-init"
    )
    continues: JobId | None = Field(
        None, description="go on with the disk of this ended VM of the same account"
    )
    identity: JobId | None = Field(None, description="job whose UUID and MAC address it keeps")
    has_old_seed: bool = Field(False, description="the VM that it continues has a seed")
    firmware: Literal["bios", "uefi"] = "bios"

    @field_validator("image", "kernel", "initrd")
    @classmethod
    def _path_is_absolute(cls, path: str | None) -> str | None:
        if path is not None and (not path.startswith("/") or "\0" in path or "\n" in path):
            raise ValueError(f"got the path {path[:80]!r}, expected an absolute one on one line")
        return path

    @field_validator("ram_bytes")
    @classmethod
    def _ram_is_in_whole_mebibytes(cls, ram_bytes: int) -> int:
        if ram_bytes % MIB:
            raise ValueError(f"got {ram_bytes} bytes of memory, expected a multiple of {MIB}")
        return ram_bytes

    @field_validator("append")
    @classmethod
    def _append_is_one_line(cls, append: str) -> str:
        if "\0" in append or "\n" in append:
            raise ValueError("the kernel's command line is one line of text")
        return append

    @field_validator("ssh_keys")
    @classmethod
    def _keys_are_lines(cls, keys: list[str]) -> list[str]:
        for key in keys:
            if "\n" in key or len(key.split()) < 2:
                raise ValueError("a public key is one line: a type, the key, and a comment")
        return keys

    @model_validator(mode="after")
    def _goes_on_with_a_vm(self) -> Self:
        if self.continues is None and (self.identity is not None or self.has_old_seed):
            raise ValueError("an identity and an old seed are those of a VM that is continued")
        if self.continues is not None and (self.ssh_keys or self.cloud_init is not None):
            raise ValueError("a VM that is continued keeps its seed: got keys or user data")
        return self

    @model_validator(mode="after")
    def _boots_from_something(self) -> Self:
        if self.image is None and self.kernel is None:
            raise ValueError("a virtual machine boots from an image or from a kernel; got neither")
        if self.kernel is None and (self.initrd is not None or self.append):
            raise ValueError("an initrd and a kernel's command line need a kernel")
        return self

    def to_spec(self) -> VmSpec:
        """Return the facts, for code that knows no wire."""
        return VmSpec(
            cpus=self.cpus,
            ram_bytes=self.ram_bytes,
            image=self.image,
            kernel=self.kernel,
            initrd=self.initrd,
            append=self.append,
            ssh_keys=tuple(self.ssh_keys),
            cloud_init=self.cloud_init,
            continues=self.continues,
            identity=self.identity,
            has_old_seed=self.has_old_seed,
            firmware=VmFirmware(self.firmware),
        )
