"""The container of a job: its image and what it has of the host, for submissions and for nodes."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from gpupool.model.container import (
    LONGEST_IMAGE,
    MOST_VOLUMES,
    check_container_path,
    check_image,
    check_mount_target,
    check_user,
)
from gpupool.wire.common import WireModel

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class VolumeIn(WireModel):
    """A directory or file of the node that the container sees."""

    source: Annotated[str, Field(max_length=4096)]
    target: Annotated[str, Field(max_length=4096)]
    read_only: bool = False

    @field_validator("source")
    @classmethod
    def _source_can_be_mounted(cls, source: str) -> str:
        check_container_path("mount source", source)
        return source

    @field_validator("target")
    @classmethod
    def _target_is_free(cls, target: str) -> str:
        check_mount_target(target)
        return target


class ContainerIn(WireModel):
    """The job's command runs in a container of this image instead of on the node itself."""

    image: Annotated[str, Field(max_length=LONGEST_IMAGE)]
    image_id: Digest | None = Field(
        None, description="the image that its user had by that name: it and no other one runs"
    )
    digest: Digest | None = Field(None, description="digest of its manifest, for the record")
    pull: Literal["never", "missing"] = "never"
    registry_auth: Annotated[str, Field(max_length=4096)] | None = Field(
        None, description="file on the node with the user's registry passwords"
    )
    user: Annotated[str, Field(max_length=130)] | None = None
    workdir: Annotated[str, Field(max_length=4096)] | None = None
    volumes: list[VolumeIn] = Field(default_factory=list, max_length=MOST_VOLUMES)
    terminal: bool = Field(False, description="its user's terminal is the container's too")

    @field_validator("image")
    @classmethod
    def _image_has_a_name(cls, image: str) -> str:
        check_image(image)
        return image

    @field_validator("user")
    @classmethod
    def _user_has_a_name(cls, user: str | None) -> str | None:
        if user is not None:
            check_user(user)
        return user

    @field_validator("workdir", "registry_auth")
    @classmethod
    def _path_is_absolute(cls, path: str | None) -> str | None:
        if path is not None:
            check_container_path("path", path)
        return path

    @model_validator(mode="after")
    def _targets_differ(self) -> Self:
        targets = [volume.target for volume in self.volumes]
        twice = sorted({target for target in targets if targets.count(target) > 1})
        if twice:
            raise ValueError(f"two volumes are mounted at {twice[0]}, expected one")
        return self
