"""The shape of a container in a submission."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gpupool.wire.containers import ContainerIn
from gpupool.wire.submissions import LaunchIn

ID = "sha256:" + "a" * 64


def test_a_container_is_part_of_a_launch_and_survives_the_store() -> None:
    asked = {
        "argv": ["train"],
        "container": {
            "image": "r.example/train:1",
            "image_id": ID,
            "volumes": [{"source": "/data", "target": "/in", "read_only": True}],
        },
    }
    launch = LaunchIn.model_validate(asked)
    again = ContainerIn.model_validate(launch.model_dump(mode="json")["container"])
    assert again == launch.container
    assert (again.pull, again.terminal, again.user) == ("never", False, None)


def test_a_launch_without_a_container_has_none() -> None:
    assert LaunchIn.model_validate({"argv": ["true"]}).container is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("image", "--privileged"),
        ("image_id", "latest"),
        ("pull", "always"),
        ("user", "-x"),
        ("workdir", "work"),
        ("registry_auth", "../auth.json"),
        ("privileged", True),
        ("volumes", [{"source": "/a,ro=false", "target": "/b"}]),
        ("volumes", [{"source": "/a", "target": "/run/gpupool/share"}]),
        ("volumes", [{"source": "/a", "target": "/b"}, {"source": "/c", "target": "/b"}]),
        ("volumes", [{"source": "/a", "target": f"/{n}"} for n in range(65)]),
    ],
)
def test_what_podman_would_read_otherwise_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError):
        ContainerIn.model_validate({"image": "a:1", field: value})
