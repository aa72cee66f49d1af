"""The manifest that KubeVirt is given."""

from __future__ import annotations

from gpupool.vm.kubevirt import build_virtual_machine
from tests.unit.vm.test_files import make_record


def test_the_functions_of_a_card_are_one_device_of_the_cluster() -> None:
    record = make_record(
        name="Dev_1", devices=("0000:41:00.0", "0000:41:00.1", "0000:42:00.0"), cpus=8
    )
    manifest = build_virtual_machine(
        record, resource="nvidia.com/GH100_H200", volume_claim="dev-disk"
    )
    spec = manifest["spec"]["template"]["spec"]
    assert manifest["apiVersion"] == "kubevirt.io/v1"
    assert manifest["metadata"]["name"] == "dev-1"
    assert spec["domain"]["devices"]["gpus"] == [
        {"name": "gpu0", "deviceName": "nvidia.com/GH100_H200"},
        {"name": "gpu1", "deviceName": "nvidia.com/GH100_H200"},
    ]
    assert (spec["domain"]["cpu"], spec["domain"]["memory"]) == ({"cores": 8}, {"guest": "1024Mi"})
    assert spec["volumes"][0]["persistentVolumeClaim"] == {"claimName": "dev-disk"}


def test_simulated_cards_are_no_devices() -> None:
    manifest = build_virtual_machine(make_record(), resource="x/y", volume_claim="z")
    assert "gpus" not in manifest["spec"]["template"]["spec"]["domain"]["devices"]
