#include "region.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct reason {
    char *text;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static bool refuse(struct reason why, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(why.text, why.size, format, values);
    va_end(values);
    return false;
}

/* Opens and measures; -1 with the reason told. */
static int open_whole(const char *path, int flags, size_t least, struct reason why)
{
    struct stat found;
    int file = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (file < 0 || fstat(file, &found)) {
        refuse(why, "%s: %s", path, strerror(errno));
    } else if (!S_ISREG(found.st_mode)) {
        refuse(why, "%s is not a file", path);
    } else if ((size_t)found.st_size < least) {
        refuse(why, "%s is cut short: %lld bytes of %zu", path, (long long)found.st_size, least);
    } else {
        return file;
    }
    if (file >= 0)
        close(file);
    return -1;
}

static bool is_header(const struct fence_header *header, uint64_t magic, size_t bytes, const char *path, struct reason why)
{
    if (header->magic != magic)
        return refuse(why, "%s is damaged: it does not begin as such a file does", path);
    if (header->layout != FENCE_LAYOUT)
        return refuse(why, "%s has layout %" PRIu32 ", this fence knows layout %u", path, header->layout, FENCE_LAYOUT);
    if (header->size != bytes)
        return refuse(why, "%s is damaged: it says %" PRIu32 " bytes instead of %zu", path, header->size, bytes);
    return true;
}

static void *map_file(const char *base, const char *name, uint64_t magic, size_t bytes, bool writable, struct reason why)
{
    char path[sizeof((struct fence_region *)0)->base + 32];
    snprintf(path, sizeof path, "%s/%s", base, name);
    int file = open_whole(path, writable ? O_RDWR : O_RDONLY, bytes, why);
    if (file < 0)
        return NULL;
    void *at = mmap(NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);
    int failed = errno;
    close(file);
    if (at == MAP_FAILED) {
        refuse(why, "%s: %s", path, strerror(failed));
        return NULL;
    }
    if (is_header(at, magic, bytes, path, why))
        return at;
    munmap(at, bytes);
    return NULL;
}

/* NULL where the file ends before them, which is nothing to complain of. */
static struct fence_timelines *map_timelines(const char *base)
{
    char path[sizeof((struct fence_region *)0)->base + 32], ignored_reason[sizeof path + 64];
    size_t bytes = sizeof(struct fence_timelines);
    snprintf(path, sizeof path, "%s/%s", base, FENCE_USAGE_FILE);
    int file = open_whole(path, O_RDWR, FENCE_TIMELINES_AT + bytes, (struct reason){ignored_reason, sizeof ignored_reason});
    if (file < 0)
        return NULL;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, FENCE_TIMELINES_AT);
    close(file);
    return at == MAP_FAILED ? NULL : at;
}

static bool is_sensible(const struct fence_limits *limits, struct reason why)
{
    if (!limits->device_count || limits->device_count > FENCE_MAX_DEVICES)
        return refuse(why, "the limits name %" PRIu32 " cards, between 1 and %u can be", limits->device_count, FENCE_MAX_DEVICES);
    if (!limits->slots || limits->slots > FENCE_MAX_SLOTS)
        return refuse(why, "the limits admit %" PRIu32 " processes, between 1 and %u can be", limits->slots, FENCE_MAX_SLOTS);
    for (uint32_t i = 0; i < limits->device_count; i++)
        if (!limits->device[i].memory_bytes)
            return refuse(why, "the limits give 0 bytes of card %" PRIu32, i);
    return true;
}

static void unmap(struct fence_region *region)
{
    if (region->limits)
        munmap((void *)region->limits, sizeof *region->limits);
    if (region->grants)
        munmap((void *)region->grants, sizeof *region->grants);
    if (region->usage)
        munmap(region->usage, sizeof *region->usage);
    if (region->timelines)
        munmap(region->timelines, sizeof *region->timelines);
    *region = (struct fence_region){0};
}

static bool map_below(struct fence_region *region, const char *base, struct reason why)
{
    region->limits = map_file(base, FENCE_LIMITS_FILE, FENCE_LIMITS_MAGIC, sizeof *region->limits, false, why);
    if (region->limits && is_sensible(region->limits, why))
        region->grants = map_file(base, FENCE_GRANTS_FILE, FENCE_GRANTS_MAGIC, sizeof *region->grants, false, why);
    if (region->grants)
        region->usage = map_file(base, FENCE_USAGE_FILE, FENCE_USAGE_MAGIC, sizeof *region->usage, true, why);
    if (!region->usage) {
        unmap(region);
        return false;
    }
    region->timelines = map_timelines(base);
    snprintf(region->base, sizeof region->base, "%s", base);
    return true;
}

static bool has_limits(const char *base, const char *name)
{
    char path[sizeof((struct fence_region *)0)->base + 32];
    return snprintf(path, sizeof path, "%s/%s", base, name) < (int)sizeof path && !access(path, F_OK);
}

bool region_map(struct fence_region *region, const char *base, const char *other, char *text, size_t size)
{
    struct reason why = {text, size};
    char above[sizeof region->base];
    *region = (struct fence_region){0};
    if (has_limits(base, FENCE_LIMITS_FILE))
        return map_below(region, base, why); /* never past a damaged file to another one */
    if (other && has_limits(other, FENCE_LIMITS_FILE))
        return map_below(region, other, why);
    if (other && has_limits(other, "limits") && snprintf(above, sizeof above, "%s/..", other) < (int)sizeof above)
        return map_below(region, above, why);
    return refuse(why, "no limits of a share at %s%s%s", base, other ? " or " : "", other ? other : "");
}
