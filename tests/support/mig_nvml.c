/* A stand-in for the management library of cards with MIG. It behaves as the real one where that
 * surprises: pending modes, SUCCESS with an activation status, INSUFFICIENT_RESOURCES for a placement
 * that is not free, numbers and uuids that are used again, enum indices that are not profile ids.
 *
 * The state is a file that every process maps (MIG_STATE), laid out as `tests/support/mig_cards.py`
 * has it. So it outlives a killed process, as the state of a real card does. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef uint32_t u32;
typedef uint64_t u64;
enum { OK, UNINITIALIZED, BAD_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 6, TOO_SMALL = 7,
       RESET_REQUIRED = 16, IN_USE = 19, INSUFFICIENT = 23, BAD_VERSION = 25 };
enum { CARDS = 2, SHAPES = 18, INSTANCES = 16, COMPUTES = 8, KILLED = 77 };

typedef struct { u32 used, id, slices, size, most, media, memory_mb, start_count, starts[8]; char name[48]; } shape;
typedef struct { u32 used, number, shape, start, size, compute_used[COMPUTES]; } instance;
typedef struct {
    u32 has_mig, current, pending, resetless, hidden_holder, virtualization, busy_instance, deaf;
    instance instances[INSTANCES];
    char uuid[48];
} card;
/* die_at: ends the process at that many calls that change something, counted before and after. */
typedef struct { u32 units, die_at, steps, calls; shape shapes[SHAPES]; card cards[CARDS]; } machine;
typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; } pci_info;
typedef struct { u32 start, size; } placement;
typedef struct { card *device; u32 id, profile_id; placement where; } instance_info;
typedef struct { card *device; instance *parent; u32 id, profile_id; placement where; } compute_info;
typedef struct { u32 version, id, p2p, slices, most, sm, copy, decoder, encoder, jpeg, ofa; u64 memory_mb; char name[96]; } profile;
typedef struct { u32 version, id, slices, most, sm, copy, decoder, encoder, jpeg, ofa; char name[96]; } compute_profile;
typedef struct { u32 field, scope; int64_t timestamp, latency; u32 type, status; union { double d; u32 u; u64 full; } value; } field_value;

static machine *state;

static machine *map(void) {
    const char *path = getenv("MIG_STATE");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return NULL;
    void *at = mmap(NULL, sizeof(machine), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}
u32 mig_state_size(void) { return sizeof(machine); }
/* Between two tests of one process another file takes the place of the first. */
static void forget_starts(void);
void mig_forget_state(void) { if (state) munmap(state, sizeof *state); state = NULL; forget_starts(); }

static void may_die(void) {
    state->steps++;
    if (state->die_at && --state->die_at == 0) _exit(KILLED);
}

/* As the real library, it opens the node of every card at its first start, and closes all at its last shutdown. MIG_NODES
 * is a folder with a file nvidiaN for each card. MIG_BUS is a PCI bus in sysfs: cards on another driver at the first start
 * are not shown. */
static int starts, nodes[CARDS];
static u32 shown, numbers[CARDS];
static void forget_starts(void) { starts = 0; }
static void write_address(int i, char *to) { snprintf(to, 16, "0000:%02x:00.0", 0x1b + 0x20 * i); }
static int is_bound(int i) {
    char path[512], driver[512], address[16];
    if (!getenv("MIG_BUS")) return 1;
    write_address(i, address);
    snprintf(path, sizeof path, "%s/devices/%s/driver", getenv("MIG_BUS"), address);
    ssize_t length = readlink(path, driver, sizeof driver - 1);
    if (length < 0) return 0;
    driver[length] = 0;
    return !strcmp(strrchr(driver, '/') + 1, "nvidia");
}
static void open_nodes(void) {
    char path[512];
    shown = 0;
    for (int i = 0; i < CARDS; i++) {
        nodes[i] = -1;
        if (!is_bound(i)) continue;
        numbers[shown++] = (u32)i;
        if (!getenv("MIG_NODES")) continue;
        snprintf(path, sizeof path, "%s/nvidia%d", getenv("MIG_NODES"), i);
        nodes[i] = open(path, O_RDWR | O_CLOEXEC);
        if (nodes[i] < 0) abort();
    }
}
int nvmlInitWithFlags(u32 flags) {
    (void)flags;
    if (!state) state = map();
    if (!state) return 9; /* driver not loaded */
    if (starts++ == 0) open_nodes();
    return OK;
}
int nvmlShutdown(void) {
    if (starts == 0) return UNINITIALIZED;
    if (--starts == 0)
        for (int i = 0; i < CARDS; i++)
            if (nodes[i] >= 0) close(nodes[i]);
    return OK;
}
const char *nvmlErrorString(int code) {
    switch (code) {
    case BAD_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NO_PERMISSION: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case IN_USE: return "In use by another client";
    case INSUFFICIENT: return "Insufficient Resources";
    default: return "Unknown Error";
    }
}
int nvmlDeviceGetCount_v2(u32 *to) { return *to = shown, OK; }
int nvmlDeviceGetHandleByIndex_v2(u32 i, card **to) {
    return i < shown ? (*to = state->cards + numbers[i], OK) : BAD_ARGUMENT;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, card **to) {
    for (u32 i = 0; i < shown; i++)
        if (!strcmp(uuid, state->cards[numbers[i]].uuid)) return *to = state->cards + numbers[i], OK;
    return NOT_FOUND;
}
/* What a probe reads of a card beside its instances. */
int nvmlSystemGetDriverVersion(char *to, u32 size) { return snprintf(to, size, "580.95.05") > 0 ? OK : TOO_SMALL; }
int nvmlDeviceGetName(const card *c, char *to, u32 size) {
    (void)c;
    return snprintf(to, size, "NVIDIA H200") > 0 ? OK : TOO_SMALL;
}
int nvmlDeviceGetPciInfo_v3(const card *c, pci_info *to) {
    *to = (pci_info){.id = 0x233510de};
    write_address((int)(c - state->cards), to->bus_id);
    return OK;
}
int nvmlDeviceGetMemoryInfo(const card *c, u64 *to) {
    (void)c;
    to[0] = 143360ull << 20; /* total, free, used */
    to[1] = 142360ull << 20;
    to[2] = 1000ull << 20;
    return OK;
}
static int is_card(const void *p) { return p >= (void *)state->cards && p < (void *)(state->cards + CARDS) &&
    ((const char *)p - (const char *)state->cards) % sizeof(card) == 0; }
static card *owner(const void *p) { return state->cards + ((const char *)p - (const char *)state->cards) / sizeof(card); }
int nvmlDeviceGetMinorNumber(const card *c, u32 *to) { return *to = (u32)(c - state->cards), OK; }
int nvmlDeviceGetVirtualizationMode(const card *c, u64 *to) { return *to = c->virtualization, OK; }
int nvmlDeviceGetFieldValues(const card *c, int n, field_value *values) {
    for (int i = 0; i < n; i++) {
        values[i].status = values[i].field == 184 ? OK : NOT_SUPPORTED;
        values[i].value.u = c->resetless;
    }
    return OK;
}

int nvmlDeviceGetMigMode(const card *c, u32 *now, u32 *pending) {
    if (!c->has_mig) return NOT_SUPPORTED;
    *now = c->current;
    *pending = c->pending;
    return OK;
}
static int has_instances(const card *c) {
    for (int i = 0; i < INSTANCES; i++)
        if (c->instances[i].used) return 1;
    return 0;
}
int nvmlDeviceSetMigMode(card *c, u32 wanted, u32 *activation) {
    if (!c->has_mig) return NOT_SUPPORTED;
    if (c->virtualization == 2) return NO_PERMISSION;
    if (!wanted && has_instances(c)) return IN_USE;
    may_die();
    c->pending = wanted;
    *activation = OK;
    /* The call succeeds all the same: why the mode is not active is in the status. */
    if (c->current != wanted) {
        if (!c->resetless) *activation = RESET_REQUIRED;
        else if (c->hidden_holder) *activation = IN_USE;
        else if (!c->deaf) c->current = wanted;
    }
    may_die();
    return OK;
}

/* By the index of NVML's enumeration. A profile's id is another number. */
int nvmlDeviceGetGpuInstanceProfileInfoV(const card *c, u32 at, profile *to) {
    if (to->version != (sizeof *to | 2u << 24)) return BAD_VERSION;
    if (!c->has_mig || at >= SHAPES || !state->shapes[at].used) return NOT_SUPPORTED;
    const shape *s = state->shapes + at;
    u32 version = to->version;
    *to = (profile){.version = version, .id = s->id, .slices = s->slices, .most = s->most, .memory_mb = s->memory_mb,
                    .jpeg = s->media, .ofa = s->media};
    snprintf(to->name, sizeof to->name, "MIG %s", s->name);
    return OK;
}
static int find_shape(u32 id) {
    for (int i = 0; i < SHAPES; i++)
        if (state->shapes[i].used && state->shapes[i].id == id) return i;
    return -1;
}
int nvmlDeviceGetGpuInstancePossiblePlacements_v2(const card *c, u32 id, placement *to, u32 *n) {
    int at = find_shape(id);
    if (!c->has_mig || at < 0) return BAD_ARGUMENT;
    *n = state->shapes[at].start_count;
    for (u32 k = 0; to && k < *n; k++) to[k] = (placement){state->shapes[at].starts[k], state->shapes[at].size};
    return OK;
}
static u32 count_shape(const card *c, int at) {
    u32 n = 0;
    for (int i = 0; i < INSTANCES; i++) n += c->instances[i].used && c->instances[i].shape == (u32)at;
    return n;
}
int nvmlDeviceGetGpuInstances(card *c, u32 id, instance **to, u32 *n) {
    int at = find_shape(id);
    state->calls++;
    if (!c->current) return NOT_SUPPORTED;
    if (at < 0) return BAD_ARGUMENT;
    *n = 0;
    for (int i = 0; i < INSTANCES; i++)
        if (c->instances[i].used && c->instances[i].shape == (u32)at) to[(*n)++] = c->instances + i;
    return OK;
}
static int is_free(const card *c, int at, u32 start) {
    const shape *s = state->shapes + at;
    int known = 0;
    for (u32 k = 0; k < s->start_count; k++) known |= s->starts[k] == start;
    if (!known || count_shape(c, at) >= s->most) return 0;
    for (int i = 0; i < INSTANCES; i++) {
        const instance *one = c->instances + i;
        if (!one->used) continue;
        if (one->start < start + s->size && start < one->start + one->size) return 0;
        if (s->media && state->shapes[one->shape].media) return 0;
    }
    return 1;
}
/* The lowest free number of the size's range, so a number comes back with the next instance. */
static int pick_number(const card *c, u32 size) {
    u32 number = size >= state->units ? 0 : size >= state->units / 2 ? 1 : size > 1 ? 3 : 7;
    for (;; number++) {
        int taken = 0;
        for (int i = 0; i < INSTANCES; i++) taken |= c->instances[i].used && c->instances[i].number == number;
        if (!taken) return (int)number;
    }
}
int nvmlDeviceCreateGpuInstanceWithPlacement(card *c, u32 id, const placement *where, instance **to) {
    int at = find_shape(id), room = 0;
    if (!c->current) return NOT_SUPPORTED;
    if (at < 0 || where->size != state->shapes[at].size) return BAD_ARGUMENT;
    if (!is_free(c, at, where->start)) return INSUFFICIENT;
    may_die();
    while (c->instances[room].used) room++;
    c->instances[room] = (instance){1, (u32)pick_number(c, where->size), (u32)at, where->start, where->size, {0}};
    *to = c->instances + room;
    may_die();
    return OK;
}
int nvmlGpuInstanceGetInfo(instance *one, instance_info *to) {
    if (!one->used) return NOT_FOUND;
    *to = (instance_info){owner(one), one->number, state->shapes[one->shape].id, {one->start, one->size}};
    return OK;
}
int nvmlDeviceGetGpuInstanceById(card *c, u32 number, instance **to) {
    for (int i = 0; i < INSTANCES; i++)
        if (c->instances[i].used && c->instances[i].number == number) return *to = c->instances + i, OK;
    return NOT_FOUND;
}
int nvmlGpuInstanceDestroy(instance *one) {
    if (!one->used) return NOT_FOUND;
    for (int k = 0; k < COMPUTES; k++)
        if (one->compute_used[k]) return IN_USE;
    may_die();
    if (!owner(one)->deaf) memset(one, 0, sizeof *one);
    may_die();
    return OK;
}

/* Index and id of a compute profile are the same up to 7 slices; the one with media engines is 7. */
static u32 width(u32 at) { static const u32 slices[] = {1, 2, 3, 4, 7}; return at < 5 ? slices[at] : at == 7 ? 1 : 0; }
static int fits(const instance *one, u32 at) {
    const shape *s = state->shapes + one->shape;
    return at == 7 ? s->media && s->slices == 1 : width(at) && width(at) <= s->slices && !(s->media && s->slices == 1);
}
int nvmlGpuInstanceGetComputeInstanceProfileInfoV(instance *one, u32 at, u32 engines, compute_profile *to) {
    if (to->version != (sizeof *to | 2u << 24)) return BAD_VERSION;
    if (!one->used) return NOT_FOUND;
    if (engines || !fits(one, at)) return NOT_SUPPORTED;
    u32 version = to->version;
    *to = (compute_profile){.version = version, .id = at, .slices = width(at), .most = state->shapes[one->shape].slices / width(at)};
    return OK;
}
int nvmlGpuInstanceGetComputeInstances(instance *one, u32 id, u32 **to, u32 *n) {
    if (!one->used) return NOT_FOUND;
    *n = 0;
    for (int k = 0; k < COMPUTES; k++)
        if (one->compute_used[k] == id + 1) to[(*n)++] = one->compute_used + k;
    return OK;
}
int nvmlGpuInstanceCreateComputeInstance(instance *one, u32 id, u32 **to) {
    u32 used = 0;
    int room = 0;
    if (!one->used) return NOT_FOUND;
    if (!fits(one, id)) return NOT_SUPPORTED;
    for (int k = 0; k < COMPUTES; k++) used += one->compute_used[k] ? width(one->compute_used[k] - 1) : 0;
    if (used + width(id) > state->shapes[one->shape].slices) return INSUFFICIENT;
    may_die();
    while (one->compute_used[room]) room++;
    one->compute_used[room] = id + 1;
    *to = one->compute_used + room;
    may_die();
    return OK;
}
static instance *parent(const u32 *compute) {
    card *c = owner(compute);
    return c->instances + ((const char *)compute - (const char *)c->instances) / sizeof(instance);
}
int nvmlComputeInstanceGetInfo_v2(u32 *compute, compute_info *to) {
    if (!*compute) return NOT_FOUND;
    instance *one = parent(compute);
    /* The device of a compute instance is a handle of its own: it answers for its uuid. */
    *to = (compute_info){(card *)compute, one, (u32)(compute - one->compute_used), *compute - 1, {0, width(*compute - 1)}};
    return OK;
}
int nvmlGpuInstanceGetComputeInstanceById(instance *one, u32 number, u32 **to) {
    if (!one->used || number >= COMPUTES || !one->compute_used[number]) return NOT_FOUND;
    return *to = one->compute_used + number, OK;
}
int nvmlComputeInstanceDestroy(u32 *compute) {
    if (!*compute) return NOT_FOUND;
    if (owner(compute)->busy_instance == parent(compute)->number + 1) return IN_USE;
    may_die();
    *compute = 0;
    may_die();
    return OK;
}
int nvmlDeviceGetUUID(const void *handle, char *to, u32 size) {
    if (is_card(handle)) return snprintf(to, size, "%s", ((const card *)handle)->uuid) < (int)size ? OK : TOO_SMALL;
    const u32 *compute = handle;
    instance *one = parent(compute);
    u32 position = (u32)(owner(compute) - state->cards);
    return snprintf(to, size, "MIG-%08x-%04x-5000-8000-%012x", position, one->number, (u32)(compute - one->compute_used)) < (int)size
        ? OK : TOO_SMALL;
}
