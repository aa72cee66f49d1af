/* Address space for simulated memory, and the check that keeps the kernel's out-of-memory killer out of it. */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define KEEP_FREE ((uint64_t)192 << 20) /* never filled by simulated memory: the programs themselves need some */
#define CHECK_EVERY ((uint64_t)64 << 20)

static _Atomic int64_t unchecked_room; /* bytes that may be written before the host is asked again */

size_t pages_round(size_t size)
{
    return (size + PAGE - 1) & ~(PAGE - 1);
}

/* Maps more than asked and gives back both ends, so that the start is aligned. */
void *pages_map(size_t size, size_t alignment, int flags)
{
    size_t length = pages_round(size), extra = alignment > PAGE ? alignment : 0;

    if (length < size || length + extra < length)
        return NULL;
    char *whole = mmap(NULL, length + extra, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
    if (whole == MAP_FAILED)
        return NULL;
    if (!extra)
        return whole;
    char *start = (char *)(((uintptr_t)whole + alignment - 1) & ~(uintptr_t)(alignment - 1));
    if (start > whole)
        munmap(whole, (size_t)(start - whole));
    if (whole + extra > start)
        munmap(start + length, (size_t)(whole + extra - start));
    return start;
}

void pages_unmap(void *start, size_t size)
{
    munmap(start, pages_round(size));
}

static bool read_number(const char *path, const char *label, uint64_t *value)
{
    char line[160];
    bool found = false;
    FILE *file = fopen(path, "re");

    if (!file)
        return false;
    while (!found && fgets(line, sizeof line, file))
        if (!strncmp(line, label, strlen(label)))
            found = sscanf(line + strlen(label), "%lu", value) == 1;
    fclose(file);
    return found;
}

static void lower_to(uint64_t *available, const char *limit_path, const char *used_path)
{
    uint64_t limit, used;

    if (!read_number(limit_path, "", &limit) || !read_number(used_path, "", &used))
        return; /* no limit: the file is not there or says "max" */
    uint64_t left = limit > used ? limit - used : 0;
    if (left < *available)
        *available = left;
}

/* The process's group as /proc/self/cgroup names it, without a slash at its end. `controller` "": cgroup v2's. */
static bool own_group(const char *controller, char *group, size_t size)
{
    char line[512], wanted[32];
    bool found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");

    snprintf(wanted, sizeof wanted, ":%s:/", controller);
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *at = strstr(line, wanted);
        line[strcspn(line, "\n")] = 0;
        found = at != NULL;
        if (found)
            snprintf(group, size, "%s", at[strlen(wanted)] ? at + strlen(wanted) - 1 : "");
    }
    if (file)
        fclose(file);
    return found;
}

/* What the process's own group and each above it leave. */
static void lower_to_groups(uint64_t *available, const char *controller, const char *root, const char *limit_name,
                            const char *used_name)
{
    char group[512], limit[640], used[640];

    if (!own_group(controller, group, sizeof group))
        return;
    for (;;) {
        snprintf(limit, sizeof limit, "%s%s/%s", root, group, limit_name);
        snprintf(used, sizeof used, "%s%s/%s", root, group, used_name);
        lower_to(available, limit, used);
        char *slash = strrchr(group, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

static uint64_t host_available(void)
{
    uint64_t kilobytes, available = UINT64_MAX;

    if (read_number("/proc/meminfo", "MemAvailable:", &kilobytes))
        available = kilobytes << 10;
    lower_to_groups(&available, "", "/sys/fs/cgroup", "memory.max", "memory.current");
    lower_to_groups(&available, "memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes");
    return available > KEEP_FREE ? available - KEEP_FREE : 0;
}

/* Bytes of a range that have no page yet. */
static uint64_t absent_bytes(const char *start, size_t size)
{
    unsigned char resident[4096];
    uint64_t absent = 0;
    const char *from = (const char *)((uintptr_t)start & ~(PAGE - 1)), *end = start + size;

    while (from < end) {
        size_t length = pages_round((size_t)(end - from));
        if (length > sizeof resident * PAGE)
            length = sizeof resident * PAGE;
        if (mincore((void *)from, length, resident))
            return size;
        for (size_t page = 0; page < length / PAGE; ++page)
            absent += resident[page] & 1 ? 0 : PAGE;
        from += length;
    }
    return absent;
}

bool pages_room(const void *start, size_t size)
{
    if (atomic_fetch_sub(&unchecked_room, (int64_t)size) >= (int64_t)size)
        return true;
    uint64_t available = host_available();
    if (size > available && absent_bytes(start, size) > available) {
        atomic_store(&unchecked_room, 0);
        return false;
    }
    /* Half of what is there at most: other processes ask the same question. */
    uint64_t next = available > size ? (available - size) / 2 : 0;
    atomic_store(&unchecked_room, (int64_t)(next < CHECK_EVERY ? next : CHECK_EVERY));
    return true;
}
