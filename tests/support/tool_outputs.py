"""What the management tools of several makers printed, as published; each with its source.

Only as much of each as the format needs: two cards, the heading, the processes.
"""

from __future__ import annotations

# github.com/gpustack/gpustack before commit 14b70d47, tests/detectors/npu_smi/data/
# ai-server_atlas-800-training-server_model-9010_version-24.1.RC2.txt (Huawei EDOC1100388860).
NPU_SMI = """\
+-------------------------------------------------------------------------------------------+
| npu-smi 24.1.RC2                          Version: 24.1.RC2                               |
+----------------------+---------------+----------------------------------------------------+
| NPU   Name           | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                 | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+======================+===============+====================================================+
| 0     xxx            | OK            | 70.5        42                1232 / 1232          |
| 0                    | 0000:C1:00.0  | 0           4252 / 15137      0    / 32768         |
+======================+===============+====================================================+
| 3     xxx            | Warning       | 206.9       39                1232 / 1232          |
| 0                    | 0000:01:00.0  | 0           3616 / 15039      0    / 32768         |
+======================+===============+====================================================+
+----------------------+---------------+----------------------------------------------------+
| NPU     Chip         | Process id    | Process name             | Process memory(MB)      |
+======================+===============+====================================================+
| 0       0            | 37656         | hlt_host_devmm_          | 686                     |
| 0       0            | 37664         | hlt_host_devmm_          | 686                     |
+======================+===============+====================================================+
| 3       0            | 37643         | hlt_host_devmm_          | 686                     |
+======================+===============+====================================================+
"""

# The same place, ai-server_atlas-800-inference-server_model-3000_version-1.0.11-1.0.15.txt (Huawei
# EDOC1100115618): one board of four chips, with the number of each chip's device file.
NPU_SMI_310 = """\
+----------------------------------------------------------------------------------------------------+
| npu-smi 21.0.4                       Version: 21.0.4.B030                                          |
+-------------------+-----------------+--------------------------------------------------------------+
| NPU     Name      | Health          | Power(W)          Temp(C)              Hugepages-Usage(page) |
| Chip    Device    | Bus-Id          | AICore(%)         Memory-Usage(MB)                           |
+===================+=================+==============================================================+
| 6       310       | OK              | 12.8              73             0       / 970               |
| 0       3         | 0000:89:00.0    | 0                 2703 / 8192                                |
+-------------------+-----------------+--------------------------------------------------------------+
| 6       310       | OK              | 12.8              74             0       / 970               |
| 1       4         | 0000:8A:00.0    | 0                 2867 / 8192                                |
+===================+=================+==============================================================+
"""

# github.com/btlqql/QuantaForge, reports/generated/performance/brsmi.txt, commit 25841194: one card with
# one process.
BRSMI = """\
Mon Jul 27 16:23:09 2026
+------------------------------------------------------------------------------+
| BR-SMI 1.11.0          Driver Version: 1.11.0          SUPA Version: 1.11    |
+----------------------------+-----------------------+-------------------------+
|   GPU                 Name |                Bus-Id |    Volatile Uncorr. ECC |
|  Temp  Perf  Pwr:Usage/Cap |          Memory-Usage |    GPU-Util  Compute M. |
|              Persistence-M |                       |                  SVI M. |
+============================+=======================+=========================+
|     0            Biren106M |      00000000:C1:00.0 |                       0 |
|    37    P0     63W / 400W |    3392MiB / 32512MiB |          0%     Default |
|                        Off |                       |                Disabled |
+----------------------------+-----------------------+-------------------------+
+------------------------------------------------------------------------------+
| Processes:                                                                   |
| GPU   SVI Dev        PID   Process Name                     GPU Memory Usage |
+==============================================================================+
|   0       N/A     202569   python3                                   3310MiB |
+------------------------------------------------------------------------------+
"""
# github.com/junfennie162-sketch/birensupa-spectralconv, demo/media/brsmi_snapshot.txt, commit 38e5ebaf:
# another card, idle.
BRSMI_106B = """\
Mon Aug  3 21:43:45 2026
+------------------------------------------------------------------------------+
| BR-SMI 1.11.0          Driver Version: 1.11.0          SUPA Version: 1.11    |
+----------------------------+-----------------------+-------------------------+
|   GPU                 Name |                Bus-Id |    Volatile Uncorr. ECC |
|  Temp  Perf  Pwr:Usage/Cap |          Memory-Usage |    GPU-Util  Compute M. |
|              Persistence-M |                       |                  SVI M. |
+============================+=======================+=========================+
|     0            Biren106B |      00000000:90:00.0 |                       0 |
|    30    P0     35W / 300W |       0MiB / 32512MiB |          0%     Default |
|                        Off |                       |                Disabled |
+----------------------------+-----------------------+-------------------------+
+------------------------------------------------------------------------------+
| Processes:                                                                   |
| GPU   SVI Dev        PID   Process Name                     GPU Memory Usage |
+==============================================================================+
|  No running process found.                                                   |
+------------------------------------------------------------------------------+
"""

# github.com/PaddlePaddle/docs, docs/guides/hardware_support/mlu_docs/paddle_install_cn.md, of 2023
# and, below, of 2022.
CNMON = """\
Wed Jun 21 10:27:01 2023
+------------------------------------------------------------------------------+
| CNMON v5.10.10                                               Driver v5.10.10 |
+-------------------------------+----------------------+-----------------------+
| Card  VF  Name       Firmware |               Bus-Id | Util        Ecc-Error |
| Fan   Temp      Pwr:Usage/Cap |         Memory-Usage | SR-IOV   Compute-Mode |
|===============================+======================+=======================|
| 0     /   MLU370-X4    v1.1.6 |         0000:1B:00.0 | 0%                N/A |
|  0%   41C         27 W/ 150 W |     0 MiB/ 23308 MiB | N/A         Exclusive |
+-------------------------------+----------------------+-----------------------+
| 1     /   MLU370-X4    v1.1.6 |         0000:36:00.0 | 0%               N/A  |
|  0%   41C         27 W/ 150 W |     0 MiB/ 23308 MiB | N/A         Exclusive |
+-------------------------------+----------------------+-----------------------+

+------------------------------------------------------------------------------+
| Processes:                                                                   |
|  Card  VF  PID    Command Line                             MLU Memory Usage  |
|==============================================================================|
|  No running processes found                                                  |
+------------------------------------------------------------------------------+
"""
CNMON_4 = """\
+------------------------------------------------------------------------------+
| CNMON v4.20.11                                                               |
+-------------------------------+----------------------+-----------------------+
| Card  VF  Name       Firmware | Inited        Driver | Util        Ecc-Error |
| Fan   Temp      Pwr:Usage/Cap |         Memory-Usage |         vMemory-Usage |
|===============================+======================+=======================|
| 0     /   MLU370-X4    v1.1.6 | On          v4.20.11 | 0%          N/A       |
|  0%   32C         30 W/ 150 W |     0 MiB/ 23308 MiB | 10240 MiB/1048576 MiB |
+-------------------------------+----------------------+-----------------------+
"""

# github.com/zstackio/zstack-utility, zstacklib/zstacklib/gpu/vendors/enflame.py.
EFSMI = """\
-------------------------------------------------------------------------------
--------------------- Enflame System Management Interface ---------------------
--------- Enflame Tech, All Rights Reserved. 2024-2025 Copyright (C) ----------
-------------------------------------------------------------------------------
DEV ID 0
    Driver Info
        Ver                     : 1.4.3.4
    Device Info
        Dev Name                : S60
        Dev UUID                : TR6Y46010302
        Dev SN                  : A0A1650510676
        Health                  : True
    PCIe Info
        Vendor ID               : 1e36
        Device ID               : c035
        Domain                  : 0000
        Bus                     : 17
        Dev                     : 00
        Func                    : 0
    Power Info
        Power Capa              : 300 W
        Cur Power               : 96 W
    Device Mem Info
        Total Size              : 42976 MiB
        Reserved Size           : 1129 MiB
        Used Size               : 0 MiB
        Free Size               : 41846 MiB
    Temperature Info
        GCU Temp                : 35 \u2103
    Device Usage Info
        GCU Usage               : 0.0 %
    Power Cable
        Status                  : Normal
"""
# The same place: names of memory in older drivers (also zstackio/zstack-utility gpu.py).
EFSMI_OLD = """\
DEV ID 0
    Device Mem Info
        Mem Size                : 42976 MiB
        Mem Usage               : 1129 MiB
        Mem Ecc                 : enable
    Temperature Info
        GCU Temp                : 34 C
    Device Usage Info
        GCU Usage               : 0.0 %
"""

# github.com/gpustack/gpustack before commit 152fcb52,
# tests/detectors/rocm_smi/data/hygon-gpu-24.04.3-rocm-smi.json.
HY_SMI = """\
{
  "card0": {
    "Device ID": "0x6210",
    "Card Series": "DCU xxxx",
    "Card Vendor": "Chengdu Haiguang IC Design Co., Ltd.",
    "Serial Number": "TPXxxxx",
    "Unique ID": "7100fa8866904061",
    "Average Graphics Package Power (W)": "80.0",
    "Temperature (Sensor edge) (C)": "41.0",
    "Temperature (Sensor junction) (C)": "39.0",
    "Temperature (Sensor mem) (C)": "44.0",
    "": "",
    "DCU use (%)": "0",
    "vram Total Memory (MiB)": "65520",
    "vram Total Used Memory (MiB)": "2"
  }
}
"""

# github.com/gpustack/gpustack before commit 152fcb52, gpustack/detectors/ixsmi/ixsmi.py, printed
# for index, name, memory.total, memory.used, utilization.gpu and temperature.gpu. The uuid is of the
# form that github.com/Deep-Spark's toolkit shows; the PCI address is of cloudpods' ixsmi table.
IXSMI_FIELDS = (
    *("index", "name", "uuid", "pci.bus_id"),
    *("memory.total", "memory.used", "utilization.gpu", "temperature.gpu"),
)
IXSMI = """\
0, Iluvatar MR-V50, GPU-1ac807aa-cbcd-5579-8591-d59d436d6eca, 00000000:26:00.0, 16384 MiB, 116 MiB, 0 %, 30 C
1, Iluvatar MR-V100, [N/A], 00000000:29:00.0, 32768 MiB, 27996 MiB, 0 %, 36 C
"""

# github.com/xyDong0223/infer-forge-harness, tests of tools/memory_budget: "the real `xpu_smi -m`".
XPU_SMI_M = (
    "00000000:03:00.0 0 0 02K15K624CV00304 36 0 0 0 86 1450 1450 1450 1450 1450 1450 "
    '2 96 90440 98304 0 1.0:2.6:1.39.1.7 "P800 OAM" 0 0 0 0 0 0 0 0 0 0\n'
    "00000000:05:00.0 1 1 02K15K624CV0030V 39 0 0 0 86 1450 1450 1450 1450 1450 1450 "
    '2 96 90440 98304 0 1.0:2.6:1.39.1.7 "P800 OAM" 0 0 0 0 0 0 0 0 0 0\n'
)

# github.com/Approaching-AI/AIMA, internal/hal/hal_test.go.
MX_SMI = """\
mx-smi  version: 2.2.8

=================== MetaX System Management Interface Log ===================
Timestamp                                         : Fri Mar  6 11:58:48 2026

Attached GPUs                                     : 2
+---------------------------------------------------------------------------------+
| MX-SMI 2.2.8                        Kernel Mode Driver Version: 3.0.11          |
| MACA Version: 3.1.0.14              BIOS Version: 1.26.1.0                      |
|------------------------------------+---------------------+----------------------+
| GPU     NAME         Persistence-M | Bus-id              | GPU-Util      sGPU-M |
| Temp    Pwr:Usage/Cap         Perf | Memory-Usage        | GPU-State            |
|====================================+=====================+======================|
| 0       MetaX N260             Off | 0000:01:00.0        | 0%            Native |
| 37C     29W / 225W              P0 | 666/65536 MiB       | Available            |
+------------------------------------+---------------------+----------------------+
| 1       MetaX N260             Off | 0000:21:00.0        | 0%            Native |
| 37C     33W / 225W              P0 | 666/65536 MiB       | Available            |
+------------------------------------+---------------------+----------------------+

+---------------------------------------------------------------------------------+
| Process:                                                                        |
|  GPU                    PID         Process Name                 GPU Memory     |
|                                                                  Usage(MiB)     |
|=================================================================================|
|  no process found                                                               |
+---------------------------------------------------------------------------------+

End of Log
"""

# github.com/gpustack/gpustack, docs/tutorials/running-inference-with-moorethreads-gpus.md.
MTHREADS_GMI = """\
Sat Nov 16 12:00:16 2024
---------------------------------------------------------------
    mthreads-gmi:1.14.0          Driver Version:2.7.0
---------------------------------------------------------------
ID   Name           |PCIe                |%GPU  Mem
     Device Type    |Pcie Lane Width     |Temp  MPC Capable
                                         |      ECC Mode
+-------------------------------------------------------------+
0    MTT S80        |00000000:01:00.0    |98%   1339MiB(16384MiB)
     Physical       |16x(16x)            |56C   YES
                                         |      N/A
---------------------------------------------------------------

---------------------------------------------------------------
Processes:
ID   PID       Process name                         GPU Memory
                                                         Usage
+-------------------------------------------------------------+
0    120       ...ird_party/bin/llama-box/llama-box       2MiB
0    2022      ...ird_party/bin/llama-box/llama-box    1333MiB
---------------------------------------------------------------
"""

# github.com/yunionio/cloudpods,
# pkg/hostman/isolated_device/container_device/thead_ppusmi_test.go.
PPU_SMI_FIELDS = ("index", "name", "uuid", "pci.bus_id", "memory.total")
PPU_SMI = """\
0, PPU-ZW810E, GPU-019e2226-4211-0208-0000-000000ab261d, 00000000:a8:00.0, 98304 MiB
1, PPU-ZW810E, GPU-019e2226-84c1-0200-0000-0000c020e701, 00000000:a7:00.0, 98304
"""

# github.com/intel/xpumanager, branch v1.3.x, doc/smi_user_guide.md.
XPU_SMI_DISCOVERY = """\
{
    "device_list": [
        {
            "device_id": 0,
            "device_name": "Intel(R) Graphics [0x020a]",
            "device_type": "GPU",
            "pci_bdf_address": "0000:4d:00.0",
            "pci_device_id": "0x20a",
            "uuid": "00000000-0000-0000-0000-020a00008086",
            "vendor_name": "Intel(R) Corporation"
        }
    ]
}
"""
# The keys are of rest/views/devices.py of the same branch, the values of the table that
# doc/smi_user_guide.md shows for the same card.
XPU_SMI_DETAIL = """\
{
    "device_id": 0,
    "device_name": "Intel(R) Graphics [0x020a]",
    "driver_version": "16929133",
    "memory_physical_size_byte": "34359738368",
    "pci_bdf_address": "0000:4d:00.0",
    "uuid": "00000000-0000-0000-0000-020a00008086"
}
"""
# Names and structure: rest/views/statistics.py and cli/src/comlet_statistics.cpp of the same branch.
XPU_SMI_STATS = """\
{
    "device_id": 0,
    "device_level": [
        {"metrics_type": "XPUM_STATS_POWER", "value": 44.69},
        {"metrics_type": "XPUM_STATS_GPU_FREQUENCY", "value": 1550},
        {"metrics_type": "XPUM_STATS_GPU_CORE_TEMPERATURE", "value": 53.0},
        {"metrics_type": "XPUM_STATS_MEMORY_USED", "value": 229.1875},
        {"metrics_type": "XPUM_STATS_GPU_UTILIZATION", "value": 0.0},
        {"metrics_type": "XPUM_STATS_RAS_ERROR_CAT_CACHE_ERRORS_CORRECTABLE", "value": 3},
        {"metrics_type": "XPUM_STATS_RAS_ERROR_CAT_CACHE_ERRORS_UNCORRECTABLE", "value": 0},
        {"metrics_type": "XPUM_STATS_RAS_ERROR_CAT_DISPLAY_ERRORS_UNCORRECTABLE", "value": 0}
    ]
}
"""
