/* Memory limits by cgroup, as the vendor's driver has them since R615 (nvmlDeviceSetMemoryLimits_v1 in nvml.h).

   They lie in "MACHINE.limits": a first line, and then a line "UUID SOFT HARD NAME" for each limit; the uuid in 32 digits, bytes
   in decimal. It is replaced by rename(2), so a reader finds the old or the new one. Only the owner of the directory can do
   that, while every job can write the machine's own file; probes/memory_limits/simulated_limits.py writes it too. */
#include "machine_internal.h"

#include "limit_groups.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_LINE "gpupool memory limits 1\n"

/* A line of the file; `name` points into the line. */
struct entry {
    char uuid[33];
    uint64_t soft, hard;
    const char *name;
};

static bool parse_entry(char *line, struct entry *entry)
{
    int at = 0;
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%32[0-9a-f] %" SCNu64 " %" SCNu64 " %n", entry->uuid, &entry->soft, &entry->hard, &at) != 3 || !at)
        return false;
    entry->name = line + at;
    return *entry->name;
}

static void write_uuid(const struct sim *sim, uint32_t card, char text[33])
{
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", sim->machine->card[card].uuid[i]);
}

/* FNV-1a, so that a slot can hold it; never 0. */
static uint64_t hash_name(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 0x100000001b3ull;
    return hash ? hash : 1;
}

static bool is_in_group(char *const lines[], int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (sim_is_inside(lines[i], name))
            return true;
    return false;
}

enum { HIERARCHIES = 32 };

/* How many, or -errno. */
static int read_own_groups(char *lines[HIERARCHIES])
{
    int count = 0;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file)
        return -errno;
    for (size_t room = 0; count < HIERARCHIES; count++, room = 0) {
        lines[count] = NULL;
        if (getline(&lines[count], &room, file) <= 0) {
            free(lines[count]);
            break;
        }
        lines[count][strcspn(lines[count], "\n")] = '\0';
    }
    fclose(file);
    return count;
}

/* Longer names of one hierarchy lie deeper: they come first. */
static void keep_limit(struct sim_own_limits *limits, size_t lengths[SIM_NESTED], const struct entry *entry)
{
    size_t length = strlen(entry->name);
    for (uint32_t i = 0; i < SIM_NESTED; i++) {
        if (limits->name[i] && lengths[i] >= length)
            continue;
        for (uint32_t last = SIM_NESTED - 1; last > i; last--) {
            limits->name[last] = limits->name[last - 1];
            limits->hard[last] = limits->hard[last - 1];
            lengths[last] = lengths[last - 1];
        }
        limits->name[i] = hash_name(entry->name);
        limits->hard[i] = entry->hard;
        lengths[i] = length;
        return;
    }
}

static void look_up(const uint64_t names[SIM_NESTED], struct sim_own_limits *limits, const struct entry *entry)
{
    uint64_t name = hash_name(entry->name);
    for (uint32_t i = 0; i < SIM_NESTED; i++)
        if (names[i] == name)
            limits->hard[i] = entry->hard;
}

/* Of the limits in the file, those of the process; `met` are the names of the limits that it belongs to already, if any. */
static int collect_limits(const struct sim *sim, uint32_t card, FILE *file, const uint64_t *met, struct sim_own_limits *limits)
{
    char uuid[33], *line = NULL, *groups[HIERARCHIES];
    size_t room = 0, lengths[SIM_NESTED] = {0};
    struct entry entry;
    int count = met ? 0 : read_own_groups(groups);
    if (count < 0)
        return count;
    write_uuid(sim, card, uuid);
    while (getline(&line, &room, file) > 0) {
        if (!parse_entry(line, &entry) || strcmp(entry.uuid, uuid))
            continue;
        if (met)
            look_up(met, limits, &entry);
        else if (is_in_group(groups, count, entry.name))
            keep_limit(limits, lengths, &entry);
    }
    int problem = feof(file) ? 0 : -EIO;
    while (count > 0)
        free(groups[--count]);
    free(line);
    return problem;
}

int sim_find_limits(const struct sim *sim, uint32_t card, struct sim_own_limits *limits)
{
    const uint64_t *met = sim->self ? sim->self->limits : NULL;
    bool known = met && met[0];
    for (uint32_t i = 0; i < SIM_NESTED; i++) {
        limits->name[i] = known ? met[i] : 0;
        limits->hard[i] = SIM_UNLIMITED;
    }
    FILE *file = fopen(sim->limits_path, "re");
    if (!file)
        return errno == ENOENT ? 0 : -errno;
    int problem = collect_limits(sim, card, file, known ? met : NULL, limits);
    fclose(file);
    return problem;
}

static uint64_t used_by_group(const struct sim *sim, uint32_t card, uint64_t name)
{
    uint64_t sum = 0;
    const struct sim_machine *m = sim->machine;
    for (uint32_t i = 0; i < atomic_load(&m->header.high_water); i++) {
        const struct sim_process *p = &m->process[i];
        bool inside = false;
        for (uint32_t n = 0; n < SIM_NESTED; n++)
            inside = inside || p->limits[n] == name;
        if (inside) {
            uint64_t managed = atomic_load(&p->memory[card][SIM_MANAGED]), all = sim_process_charge(p, card);
            sum += all > managed ? all - managed : 0;
        }
    }
    return sum;
}

uint64_t sim_left_of_limits(const struct sim *sim, uint32_t card, const struct sim_own_limits *limits)
{
    uint64_t left = SIM_UNLIMITED;
    for (uint32_t i = 0; i < SIM_NESTED; i++) {
        if (!limits->name[i] || limits->hard[i] == SIM_UNLIMITED)
            continue;
        uint64_t used = used_by_group(sim, card, limits->name[i]);
        uint64_t rest = used < limits->hard[i] ? limits->hard[i] - used : 0;
        left = rest < left ? rest : left;
    }
    return left;
}

uint64_t sim_left(struct sim *sim, uint32_t card, uint64_t *total)
{
    struct sim_own_limits limits;
    uint64_t free_bytes = sim_free(sim, card);
    if (sim_find_limits(sim, card, &limits))
        return 0;
    uint64_t left = sim_left_of_limits(sim, card, &limits);
    for (uint32_t i = 0; i < SIM_NESTED; i++)
        if (limits.name[i] && limits.hard[i] < *total)
            *total = limits.hard[i];
    return left < free_bytes ? left : free_bytes;
}

/* --- setting --- */

/* Copies the entries but one, and adds that one unless it stands for no limit. */
static int copy_entries(const struct sim *sim, FILE *to, const struct entry *changed)
{
    char *line = NULL;
    size_t room = 0;
    struct entry entry;
    FILE *from = fopen(sim->limits_path, "re");
    if (!from && errno != ENOENT)
        return -errno;
    fputs(FIRST_LINE, to);
    while (from && getline(&line, &room, from) > 0)
        if (parse_entry(line, &entry) && (strcmp(entry.uuid, changed->uuid) || strcmp(entry.name, changed->name)))
            fprintf(to, "%s %" PRIu64 " %" PRIu64 " %s\n", entry.uuid, entry.soft, entry.hard, entry.name);
    if (changed->soft || changed->hard != SIM_UNLIMITED)
        fprintf(to, "%s %" PRIu64 " %" PRIu64 " %s\n", changed->uuid, changed->soft, changed->hard, changed->name);
    free(line);
    if (from)
        fclose(from);
    return 0;
}

static int replace_entry(const struct sim *sim, const struct entry *changed)
{
    char temporary[sizeof sim->limits_path + 8];
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", sim->limits_path);
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    FILE *file = fdopen(fd, "w");
    int problem = file ? copy_entries(sim, file, changed) : -errno;
    if (!problem && fchmod(fd, 0644))
        problem = -errno;
    if (file ? fclose(file) : close(fd))
        problem = problem ? problem : -errno;
    if (!problem && rename(temporary, sim->limits_path))
        problem = -errno;
    if (problem)
        unlink(temporary);
    return problem;
}

int sim_limit_set(struct sim *sim, uint32_t card, const char *directory, uint64_t soft, uint64_t hard)
{
    char name[SIM_GROUP_SIZE];
    struct entry changed = {.soft = soft, .hard = hard, .name = name};
    int problem = sim_name_group(directory, name);
    if (problem)
        return problem;
    write_uuid(sim, card, changed.uuid);
    int lock = open(sim->path, O_RDWR | O_CLOEXEC);
    if (lock < 0)
        return -errno;
    problem = flock(lock, LOCK_EX) ? -errno : replace_entry(sim, &changed);
    close(lock);
    return problem;
}

int sim_limit_get(struct sim *sim, uint32_t card, const char *directory, struct sim_limit *limit)
{
    char name[SIM_GROUP_SIZE], uuid[33], *line = NULL;
    size_t room = 0;
    struct entry entry;
    int problem = sim_name_group(directory, name);
    if (problem)
        return problem;
    *limit = (struct sim_limit){0, SIM_UNLIMITED, 0};
    write_uuid(sim, card, uuid);
    FILE *file = fopen(sim->limits_path, "re");
    while (file && getline(&line, &room, file) > 0)
        if (parse_entry(line, &entry) && !strcmp(entry.uuid, uuid) && !strcmp(entry.name, name)) {
            limit->soft = entry.soft;
            limit->hard = entry.hard;
        }
    free(line);
    if (file)
        fclose(file);
    sim_reap(sim);
    limit->used = used_by_group(sim, card, hash_name(name));
    return 0;
}
