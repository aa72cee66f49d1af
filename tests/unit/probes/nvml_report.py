"""Run by the tests in a process of its own, with the fake library on its path: prints what the
probe says as JSON.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from gpupool.model.device import DeviceHealth
from gpupool.probes.accounting import explain_accounting_off
from gpupool.probes.nvml import NvmlProbe


def main() -> None:
    probe = NvmlProbe(sys_root=Path(sys.argv[1]))
    available = probe.available()
    report: dict[str, object] = {"available": asdict(available)}
    if available.ok:
        machine = probe.scan()
        uuids = [device.uuid for device in machine.devices]
        domains = machine.topology.domains.items()
        report["devices"] = [asdict(device) for device in machine.devices]
        report["links"] = [asdict(link) for link in machine.topology.links]
        report["domains"] = {kind: [sorted(group) for group in groups] for kind, groups in domains}
        report["distances"] = [[machine.topology.find_distance(a, b) for b in uuids] for a in uuids]
        report["machine"] = {
            "driver": machine.driver_version,
            "cuda": machine.cuda_version,
            "sim": machine.simulated,
        }
        report["usage"] = {
            uuid: asdict(u) for uuid, u in probe.observe([*uuids, "GPU-nobody"]).items()
        }
        report["ended"] = {
            uuid: asdict(t) for uuid, t in probe.ended_times(uuids, range(4000, 4005)).items()
        }
        report["accounting"] = explain_accounting_off(probe, uuids)
        report["events"] = [[asdict(event) for event in probe.wait_events(0.01)] for _ in range(4)]
        report["health"] = {
            uuid: [DeviceHealth(h).value, reason] for uuid, (h, reason) in probe.health().items()
        }
        probe.close()
    print(json.dumps(report))


main()
