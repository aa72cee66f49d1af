/* A stand-in for libnvidia-ml.so.1 with a fixed table of cards, so that the NVML probe runs without a GPU.
 *
 * Prototypes follow the public NVML API reference; only what the probe calls is here. FAKE_NVML_SCENE names the
 * machine: "pair" (an H200 cut by MIG and an H200 joined by four NVLinks, and a T4 that refuses what a T4 or an old
 * driver refuses), "switch" (four H100 behind NVSwitch), "ill" (cards with every kind of trouble), "unloaded" and
 * "mismatched" (a driver that does not start), "empty" (a driver without cards).
 * FAKE_NVML_NODES is a folder with a file nvidiaN for each card, which stands for its device node.
 * FAKE_NVML_PID is a process shown as running on card 1, the only one whose accounting mode is on. It remembers pid 4001
 * (51 % of 2,000 ms), 4002 that runs, 4003 whose use was not measured; they began at FAKE_NVML_START_US.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, BAD_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NOT_LOADED = 9, TIMEOUT = 10,
       LOST = 15, MISMATCH = 18 };
typedef unsigned int u32;
typedef unsigned long long u64;

typedef struct { const char *uuid, *name, *bus; u32 pci, minor, architecture; int major, minor_cc; u64 total;
                 int plain; } card;
typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; } pci_info;
typedef struct { u64 total, free, used; } memory_v1;
typedef struct { u32 version; u64 total, reserved, free, used; } memory_v2;
typedef struct { u32 gpu, memory; } utilization;
typedef struct { u32 pid; u64 memory; u32 gpu_instance, compute_instance; } process;
typedef struct { const card *device; u64 type, data; u32 gpu_instance, compute_instance; } event;
typedef struct { u32 version, id, p2p, slices, instances, sm, copy, decoder, encoder, jpeg, ofa; u64 memory_mb;
                 char name[96]; } profile;
typedef struct { u32 start, size; } placement;
typedef struct { const card *device; u32 id, profile_id; placement where; } instance_info;

#define MIB (1024ULL * 1024ULL)
#define H200(n, bus) {"GPU-0000000" n "-aaaa", "NVIDIA H200", bus, 0x233510de, n[0] - '0', 9, 9, 0, 143771 * MIB, 0}
#define H100(n, bus) {"GPU-0000000" n "-bbbb", "NVIDIA H100 80GB HBM3", bus, 0x233010de, n[0] - '0', 9, 9, 0, 81559 * MIB, 0}

static const card PAIR[] = {
    H200("0", "00000000:3B:00.0"), H200("1", "00000000:3C:00.0"),
    {"GPU-00000002-aaaa", "Tesla T4", "00000000:AF:00.0", 0x1eb810de, 2, 6, 7, 5, 15360 * MIB, 1}};
static const card SWITCH[] = {H100("0", "00000000:18:00.0"), H100("1", "00000000:2A:00.0"),
                              H100("2", "00000000:9A:00.0"), H100("3", "00000000:AB:00.0")};

static int scene(const char *name) {
    const char *wanted = getenv("FAKE_NVML_SCENE");
    return strcmp(wanted ? wanted : "pair", name) == 0;
}
static const card *cards(void) { return scene("switch") || scene("ill") ? SWITCH : PAIR; }
static u32 count(void) { return scene("empty") ? 0 : cards() == SWITCH ? 4 : 3; }
static u32 position(const card *c) { return (u32)(c - cards()); }
static int lost(const card *c) { return scene("ill") && position(c) == 0; }
static int put(char *to, u32 size, const char *text) {
    if (strlen(text) >= size) return TOO_SMALL;
    strcpy(to, text);
    return OK;
}

/* As the real library, it opens the node of every card at its first start, and closes all at its last shutdown. */
static int starts, nodes[8];
static void open_nodes(void) {
    const char *folder = getenv("FAKE_NVML_NODES");
    char path[512];
    for (u32 i = 0; folder && i < count(); i++) {
        snprintf(path, sizeof path, "%s/nvidia%u", folder, i);
        nodes[i] = open(path, O_RDWR | O_CLOEXEC);
        if (nodes[i] < 0) abort();
    }
}
int nvmlInitWithFlags(u32 flags) {
    (void)flags;
    if (scene("unloaded")) return NOT_LOADED;
    if (scene("mismatched")) return MISMATCH;
    if (starts++ == 0) open_nodes();
    return OK;
}
int nvmlShutdown(void) {
    if (starts == 0) return UNINITIALIZED;
    if (--starts == 0 && getenv("FAKE_NVML_NODES"))
        for (u32 i = 0; i < count(); i++) close(nodes[i]);
    return OK;
}
int nvmlSystemGetDriverVersion(char *to, u32 size) { return put(to, size, "580.95.05"); }
int nvmlSystemGetCudaDriverVersion(int *to) { *to = 13000; return OK; }
int nvmlDeviceGetCount_v2(u32 *to) { *to = count(); return OK; }
int nvmlDeviceGetHandleByIndex_v2(u32 i, const card **to) {
    if (i >= count()) return BAD_ARGUMENT;
    *to = cards() + i;
    return OK;
}
/* A partition's handle is the address of this table's entry: it answers only for its uuid and number. */
static const char PARTITION[] = "MIG-7f3c1d2e-0000-5000-8000-000000000001";
int nvmlDeviceGetUUID(const void *c, char *to, u32 size) {
    return put(to, size, c == PARTITION ? PARTITION : ((const card *)c)->uuid);
}
int nvmlDeviceGetName(const card *c, char *to, u32 size) { return put(to, size, c->name); }
int nvmlDeviceGetPciInfo_v3(const card *c, pci_info *to) {
    memset(to, 0, sizeof *to);
    strcpy(to->bus_id, c->bus);
    to->id = c->pci;
    return OK;
}
int nvmlDeviceGetMemoryInfo(const card *c, memory_v1 *to) {
    if (lost(c)) return LOST;
    *to = (memory_v1){c->total, c->total - 1024 * MIB, 1024 * MIB};
    return OK;
}
int nvmlDeviceGetMemoryInfo_v2(const card *c, memory_v2 *to) {
    if (lost(c)) return LOST;
    if (c->plain) return NOT_SUPPORTED;
    if (to->version != (sizeof *to | 2u << 24)) return 25; /* argument version mismatch */
    *to = (memory_v2){to->version, c->total, 600 * MIB, c->total - 1024 * MIB, 424 * MIB};
    return OK;
}
int nvmlDeviceGetMinorNumber(const card *c, u32 *to) { *to = c->minor; return OK; }
int nvmlDeviceGetArchitecture(const card *c, u32 *to) { *to = c->architecture; return OK; }
int nvmlDeviceGetCudaComputeCapability(const card *c, int *major, int *minor) {
    *major = c->major;
    *minor = c->minor_cc;
    return OK;
}
int nvmlDeviceGetEccMode(const card *c, u32 *now, u32 *pending) {
    if (c->plain) return NOT_SUPPORTED;
    return *now = *pending = 1, OK;
}
int nvmlDeviceGetUtilizationRates(const card *c, utilization *to) {
    if (c->plain || position(c) == 0) return NOT_SUPPORTED; /* card 0 is cut by MIG, where NVML has no rate */
    *to = (utilization){37, 5};
    return OK;
}
int nvmlDeviceGetPowerUsage(const card *c, u32 *to) { return c->plain ? NOT_SUPPORTED : (*to = 121600, OK); }
int nvmlDeviceGetTotalEnergyConsumption(const card *c, u64 *to) {
    return c->plain ? NOT_SUPPORTED : (*to = 9876543210ull, OK);
}
int nvmlDeviceGetTemperature(const card *c, u32 sensor, u32 *to) {
    (void)c;
    return sensor ? BAD_ARGUMENT : (*to = 41, OK);
}

static int list(u32 *n, process *to, u32 have, process one) {
    u32 room = *n;
    *n = have;
    if (have > room) return TOO_SMALL;
    if (have) to[0] = one;
    return OK;
}
static u32 shown_pid(void) { return (u32)atoi(getenv("FAKE_NVML_PID") ? getenv("FAKE_NVML_PID") : "0"); }
int nvmlDeviceGetComputeRunningProcesses_v3(const card *c, u32 *n, process *to) {
    if (c->plain) return NOT_SUPPORTED;
    return list(n, to, position(c) == 1 && shown_pid(), (process){shown_pid(), 7 * MIB, ~0u, ~0u});
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(const card *c, u32 *n, process *to) {
    return list(n, to, position(c) == 1 && shown_pid(), (process){shown_pid(), ~0ULL, ~0u, ~0u});
}

/* As a driver of the R470 branch: the second form only. */
int nvmlDeviceGetMPSComputeRunningProcesses_v2(const card *c, u32 *n, process *to) {
    return list(n, to, position(c) == 1 && shown_pid(), (process){1, 3 * MIB, ~0u, ~0u});
}

typedef struct { u32 gpu, memory; u64 most_memory, milliseconds, start_us; u32 running, reserved[5]; } accounting;
int nvmlDeviceGetAccountingMode(const card *c, u32 *to) {
    if (c->plain) return NOT_SUPPORTED;
    return *to = position(c) == 1, OK;
}
int nvmlDeviceGetAccountingStats(const card *c, u32 pid, accounting *to) {
    const char *start = getenv("FAKE_NVML_START_US");
    if (position(c) != 1) return NOT_SUPPORTED;
    if (pid < 4001 || pid > 4003) return NOT_FOUND;
    *to = (accounting){pid == 4003 ? ~0u : 51, 3, 7 * MIB, pid == 4002 ? 0 : 2000, start ? strtoull(start, NULL, 10) : 0,
                       pid == 4002, {0}};
    return OK;
}

int nvmlDeviceGetTotalEccErrors(const card *c, u32 kind, u32 counter, u64 *to) {
    if (c->plain || kind != 1 || counter != 0) return NOT_SUPPORTED;
    *to = scene("ill") && position(c) == 1 ? 2 : 0;
    return OK;
}
int nvmlDeviceGetRemappedRows(const card *c, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failure) {
    if (c->plain) return NOT_SUPPORTED;
    *corrected = *uncorrected = 0;
    *pending = scene("ill") && position(c) == 1;
    *failure = scene("ill") && position(c) == 2;
    return OK;
}
int nvmlDeviceGetRetiredPagesPendingStatus(const card *c, u32 *to) {
    (void)c;
    return *to = 0, NOT_SUPPORTED;
}

static int registered, waits;
int nvmlEventSetCreate(void **to) { *to = &registered; return OK; }
int nvmlEventSetFree(void *set) { return set == &registered ? OK : BAD_ARGUMENT; }
int nvmlDeviceGetSupportedEventTypes(const card *c, u64 *to) {
    return c->plain ? NOT_SUPPORTED : (*to = 0x8 | 0x2 | 0x10, OK);
}
int nvmlDeviceRegisterEvents(const card *c, u64 kinds, void *set) {
    (void)c;
    if (kinds & ~(0x8ULL | 0x2ULL) || set != &registered) return BAD_ARGUMENT;
    registered += kinds != 0;
    return OK;
}
/* First an XID of the program's own making, then the card falls off the bus, then once more
 * a program's error, then nothing. */
int nvmlEventSetWait_v2(void *set, event *to, u32 milliseconds) {
    static const u64 XIDS[] = {31, 79, 43};
    static const u64 RECOVERY_XIDS[] = {109, 13, 154};
    (void)milliseconds;
    if (set != &registered || !registered || !(scene("pair") || scene("recovery")) || waits >= 3) return TIMEOUT;
    *to = (event){cards() + 1, 0x8, (scene("pair") ? XIDS : RECOVERY_XIDS)[waits++], ~0u, ~0u};
    return OK;
}
/* Field 230, the recovery action: none after the first XIDs, and a reset from the third one on. */
typedef struct { u32 field, scope; long long at, latency; u32 type, error; union { u32 number; u64 wide; } value; } field_value;
int nvmlDeviceGetFieldValues(const card *c, int n, field_value *to) {
    if (!scene("recovery")) return NOT_SUPPORTED;
    for (int i = 0; i < n; i++)
        if (to[i].field == 230 && position(c) == 1) to[i].type = 1, to[i].error = OK, to[i].value.number = waits >= 3;
        else to[i].error = NOT_SUPPORTED;
    return OK;
}

static const struct { u32 at, id, slices, instances, size; u64 mb; const char *name; u32 starts[7]; } SHAPES[] = {
    {0, 19, 1, 7, 1, 16384, "MIG 1g.18gb", {0, 1, 2, 3, 4, 5, 6}},
    {2, 9, 3, 2, 4, 71168, "MIG 3g.71gb", {0, 4}},
    {4, 0, 7, 1, 8, 143360, "MIG 7g.141gb", {0}},
    {7, 20, 1, 1, 1, 16384, "MIG 1g.18gb+me", {0, 1, 2, 3, 4, 5, 6}}};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof *SHAPES };
static int cut(const card *c) { return scene("pair") && position(c) == 0; }
int nvmlDeviceGetMigMode(const card *c, u32 *now, u32 *pending) {
    if (c->plain) return NOT_SUPPORTED;
    return *now = *pending = (u32)cut(c), OK;
}
int nvmlDeviceGetGpuInstanceProfileInfoV(const card *c, u32 at, profile *to) {
    if (c->plain || cards() != PAIR) return NOT_SUPPORTED;
    for (int i = 0; i < SHAPE_COUNT; i++)
        if (SHAPES[i].at == at) {
            u32 version = to->version;
            *to = (profile){.version = version, .id = SHAPES[i].id, .slices = SHAPES[i].slices,
                            .instances = SHAPES[i].instances, .memory_mb = SHAPES[i].mb};
            strcpy(to->name, SHAPES[i].name);
            return OK;
        }
    return NOT_SUPPORTED;
}
int nvmlDeviceGetGpuInstancePossiblePlacements_v2(const card *c, u32 id, placement *to, u32 *n) {
    (void)c;
    for (int i = 0; i < SHAPE_COUNT; i++)
        if (SHAPES[i].id == id) {
            *n = SHAPES[i].instances == 1 && id == 20 ? 7 : SHAPES[i].instances;
            for (u32 k = 0; to && k < *n; k++) to[k] = (placement){SHAPES[i].starts[k], SHAPES[i].size};
            return OK;
        }
    return BAD_ARGUMENT;
}
static const char INSTANCE[] = "instance";
int nvmlDeviceGetGpuInstances(const card *c, u32 id, const void **to, u32 *n) {
    *n = cut(c) && id == 9;
    if (*n) to[0] = INSTANCE;
    return OK;
}
int nvmlGpuInstanceGetInfo(const void *handle, instance_info *to) {
    if (handle != INSTANCE) return BAD_ARGUMENT;
    *to = (instance_info){cards(), 2, 9, {4, 4}};
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(const card *c, u32 *to) { return *to = cut(c) ? 7 : 0, OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(const card *c, u32 i, const void **to) {
    if (!cut(c) || i) return NOT_FOUND;
    *to = PARTITION;
    return OK;
}
int nvmlDeviceGetGpuInstanceId(const void *handle, u32 *to) {
    return handle == PARTITION ? (*to = 2, OK) : NOT_SUPPORTED;
}

int nvmlDeviceGetTopologyCommonAncestor(const card *a, const card *b, u32 *to) {
    u32 low = position(a) < position(b) ? position(a) : position(b), high = position(a) + position(b) - low;
    if (cards() == PAIR) *to = low == 0 && high == 1 ? 10 : 50;
    else *to = low / 2 == high / 2 ? 40 : 50;
    return OK;
}
static u32 links(const card *c) { return cards() == SWITCH ? 18 : c->plain ? 0 : 4; }
int nvmlDeviceGetNvLinkState(const card *c, u32 n, u32 *to) {
    if (c->plain) return NOT_SUPPORTED;
    if (n >= 18) return BAD_ARGUMENT;
    return *to = n < links(c), OK;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(const card *c, u32 n, u32 *to) {
    (void)c, (void)n;
    return *to = cards() == SWITCH ? 2 : 0, OK;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(const card *c, u32 n, pci_info *to) {
    (void)n;
    memset(to, 0, sizeof *to);
    strcpy(to->bus_id, cards() == SWITCH ? "00000000:05:00.0" : cards()[!position(c)].bus);
    return OK;
}
