"""What a container may ask for, and what a pool lets it have."""

from __future__ import annotations

import pytest

from gpupool.model.container import (
    ContainerPolicy,
    check_container_path,
    check_image,
    check_mount_target,
    check_user,
    is_below,
    parse_container_policy,
    qualify_image,
)

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    "name",
    ["a", "a:1", "team/a_b", "r.example:5000/team/a:1.2-x", "localhost/a", f"a@{DIGEST}", "R.EX/a"],
)
def test_an_image_name_of_a_registry_is_accepted(name: str) -> None:
    check_image(name)


@pytest.mark.parametrize(
    "name",
    ["", "A", "a b", "-a", "--rm", "a:", "a@sha256:1", "a//b", "../a", "a" * 401, "a\n", "a:1:2"],
)
def test_a_text_that_is_no_image_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="image: got"):
        check_image(name)


@pytest.mark.parametrize(
    "path", ["data", "/a,b", "/a:b", '/a"b', "/a\nb", "/a/../b", "/a//b", "/a/"]
)
def test_a_path_that_podman_would_read_otherwise_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="mount source: got"):
        check_container_path("mount source", path)


@pytest.mark.parametrize("path", ["/", "/proc", "/run/gpupool/share", "/dev/shm", "/sys/fs"])
def test_nothing_is_mounted_over_the_share_or_the_kernels_files(path: str) -> None:
    with pytest.raises(ValueError, match="mount target"):
        check_mount_target(path)


def test_a_place_beside_a_reserved_one_is_free() -> None:
    check_mount_target("/run/gpupool-data")
    check_mount_target("/data in")


@pytest.mark.parametrize("user", ["", "-u", "a b", "a:b:c", "--user"])
def test_a_text_that_names_no_user_is_refused(user: str) -> None:
    with pytest.raises(ValueError, match="user: got"):
        check_user(user)


def test_a_user_is_a_name_or_two_numbers() -> None:
    for user in ("root", "1000", "1000:100", "app:video"):
        check_user(user)


def test_a_place_is_below_itself_and_not_below_its_namesake() -> None:
    assert is_below("/home/a", "/home/a")
    assert is_below("/home/a/b", "/home/a")
    assert not is_below("/home/ab", "/home/a")


def test_without_a_policy_only_local_images_run() -> None:
    usual = parse_container_policy((), (), own_pool=False)
    assert usual.explain_image_refusal("a:1", "never") == ""
    assert (
        usual.explain_image_refusal("r.example/a:1", "missing")
        == "image r.example/a:1 may not be pulled; allowed here: local"
    )


def test_a_named_registry_may_be_pulled_from_and_its_namesake_may_not() -> None:
    policy = parse_container_policy(("r.example/team",), (), own_pool=False)
    for image in ("r.example/team/a:1", "r.example/team:2", f"r.example/team@{DIGEST}"):
        assert policy.explain_image_refusal(image, "missing") == ""
    assert "may not be pulled" in policy.explain_image_refusal("r.example/teamster/a", "missing")
    assert "may not run; allowed here: r.example/team" in policy.explain_image_refusal("a", "never")


def test_a_name_without_a_registry_is_of_this_machine() -> None:
    assert qualify_image("a/b:1") == "localhost/a/b:1"
    assert qualify_image("r.example/b") == "r.example/b"
    assert qualify_image("r:5000/b") == "r:5000/b"
    assert qualify_image("localhost/b") == "localhost/b"


@pytest.mark.parametrize("entry", ["", "a b", "https://r.example", "r.example/", "-x"])
def test_a_policy_with_a_wrong_entry_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="expected local or a registry"):
        parse_container_policy((entry,), (), own_pool=False)


def test_a_home_and_named_directories_may_be_mounted() -> None:
    policy = ContainerPolicy(volumes=("/data",))
    assert policy.explain_volume_refusal("/home/a/x", "/home/a") == ""
    assert policy.explain_volume_refusal("/data", "/home/a") == ""
    assert (
        policy.explain_volume_refusal("/home/b", "/home/a")
        == "/home/b may not be mounted; allowed here: /home/a, /data"
    )


def test_a_home_that_is_the_root_directory_allows_nothing() -> None:
    assert ContainerPolicy().explain_volume_refusal("/etc", "/") != ""
    assert ContainerPolicy().explain_volume_refusal("/etc", "") != ""


def test_in_a_users_own_pool_everything_may_be_mounted() -> None:
    assert ContainerPolicy(own_pool=True).explain_volume_refusal("/etc", "/home/a") == ""
