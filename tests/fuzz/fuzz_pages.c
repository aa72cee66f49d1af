/* The three files of a share as a fence finds them: damaged, cut short, of another layout. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/region.h"

static const struct {
    const char *name;
    size_t bytes;
} FILES[] = {
    {FENCE_LIMITS_FILE, sizeof(struct fence_limits)},
    {FENCE_GRANTS_FILE, sizeof(struct fence_grants)},
    {FENCE_USAGE_FILE, sizeof(struct fence_usage)},
};
static char base[64];

static void remove_base(void)
{
    char path[128];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", base, FILES[i].name);
        unlink(path);
    }
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", base, (const char *[]){"/share", "/usage", ""}[i]);
        rmdir(path);
    }
}

static void make_base(void)
{
    char path[128];
    snprintf(base, sizeof base, "/dev/shm/gpupool-fuzz-XXXXXX");
    if (!mkdtemp(base))
        abort();
    atexit(remove_base);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s%s", base, i ? "/usage" : "/share");
        mkdir(path, 0700);
    }
}

static void write_file(int which, const void *head, size_t size, size_t whole)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", base, FILES[which].name);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, head, size < whole ? size : whole) < 0 || ftruncate(file, (off_t)whole))
        abort();
    close(file);
}

/* First byte: which file is damaged, which is cut. Then what its first 640 bytes are changed by. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fence_limits limits;
    struct fence_header grants = {FENCE_GRANTS_MAGIC, FENCE_LAYOUT, sizeof(struct fence_grants)};
    struct fence_header usage = {FENCE_USAGE_MAGIC, FENCE_LAYOUT, sizeof(struct fence_usage)};
    struct fence_region region;
    char why[256] = "";
    if (!*base)
        make_base();
    if (!size)
        return 0;
    limits = (struct fence_limits){.header = {FENCE_LIMITS_MAGIC, FENCE_LAYOUT, FENCE_PAGE_BYTES}, .device_count = 1, .slots = 4};
    limits.header.size = sizeof limits;
    limits.device[0].memory_bytes = 1 << 30;
    void *heads[] = {&limits, &grants, &usage};
    size_t sizes[] = {sizeof limits, sizeof grants, sizeof usage}, which = data[0] & 3;
    for (size_t i = 1; which < 3 && i < size && i - 1 < sizes[which]; i++)
        ((uint8_t *)heads[which])[i - 1] ^= data[i];
    for (int i = 0; i < 3; i++)
        write_file(i, heads[i], sizes[i], data[0] >> (2 + i) & 1 ? size : FILES[i].bytes);
    if (region_map(&region, base, NULL, why, sizeof why)) {
        if (!region.limits->device_count || region.limits->device_count > FENCE_MAX_DEVICES || region.limits->slots > FENCE_MAX_SLOTS)
            abort();
    } else if (!*why) {
        abort();
    }
    return 0;
}
