#include "share.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bus_error.h"
#include "report.h"

#define COMPLAIN_NS 1000000000ull

static void *map_file(const char *directory, const char *name, size_t size, int access, int *keep, char *why, size_t room)
{
    char path[PATH_MAX];
    struct stat found;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int file = open(path, (access & PROT_WRITE ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW);
    void *at = MAP_FAILED;
    if (file < 0 || fstat(file, &found))
        snprintf(why, room, "%s: %s", name, strerror(errno));
    else if (!S_ISREG(found.st_mode) || (size_t)found.st_size < size)
        snprintf(why, room, "%s: %lld bytes instead of %zu", name, (long long)found.st_size, size);
    else if ((at = mmap(NULL, size, access, MAP_SHARED, file, 0)) == MAP_FAILED)
        snprintf(why, room, "%s: %s", name, strerror(errno));
    if (keep && at != MAP_FAILED)
        *keep = file;
    else if (file >= 0)
        close(file);
    return at == MAP_FAILED ? NULL : at;
}

static bool is_header(const struct fence_header *header, uint64_t magic, size_t size)
{
    return header->magic == magic && header->layout == FENCE_LAYOUT && header->size == size;
}

struct look {
    struct share *share;
    bool whole;
};

static void check_usage(void *context)
{
    struct look *look = context;
    look->whole = is_header(&look->share->usage->header, FENCE_USAGE_MAGIC, sizeof(struct fence_usage));
}

/* The limits are one page; the header counts the whole file. */
static bool check_headers(struct share *s, char *why, size_t room)
{
    struct look look = {s, false};
    if (s->limits->header.magic != FENCE_LIMITS_MAGIC || s->limits->header.layout != FENCE_LAYOUT)
        snprintf(why, room, "limits: not of layout %u", FENCE_LAYOUT);
    else if (!is_header(&s->grants->header, FENCE_GRANTS_MAGIC, sizeof *s->grants))
        snprintf(why, room, "grants: not of layout %u", FENCE_LAYOUT);
    else if (!run_guarded(check_usage, &look) || !look.whole)
        snprintf(why, room, "region: not of layout %u", FENCE_LAYOUT);
    else
        return true;
    return false;
}

static bool read_owner_of_region(struct share *s, char *why, size_t room)
{
    struct stat found;
    if (fstat(s->usage_file, &found)) {
        snprintf(why, room, "region: %s", strerror(errno));
        return false;
    }
    s->region_uid = found.st_uid;
    s->region_gid = found.st_gid;
    s->region_mode = found.st_mode;
    return true;
}

static bool map_files(struct share *s, const char *share_directory, const char *usage_directory, char *why, size_t room)
{
    s->limits = map_file(share_directory, "limits", sizeof *s->limits, PROT_READ, NULL, why, room);
    if (!s->limits)
        return false;
    s->grants = map_file(share_directory, "grants", sizeof *s->grants, PROT_READ | PROT_WRITE, NULL, why, room);
    if (!s->grants)
        return false;
    s->usage = map_file(usage_directory, "region", sizeof *s->usage, PROT_READ | PROT_WRITE, &s->usage_file, why, room);
    return s->usage && check_headers(s, why, room) && read_owner_of_region(s, why, room);
}

static uint32_t device_count(const struct share *s)
{
    return s->limits->device_count < FENCE_MAX_DEVICES ? s->limits->device_count : FENCE_MAX_DEVICES;
}

struct share *share_open(const char *name, const char *share_directory, const char *usage_directory, char *why, size_t size)
{
    struct share *s = calloc(1, sizeof *s);
    if (!s) {
        snprintf(why, size, "no memory");
        return NULL;
    }
    snprintf(s->name, sizeof s->name, "%s", name);
    s->usage_file = s->doorbell.file = -1;
    if (!map_files(s, share_directory, usage_directory, why, size)) {
        share_close(s);
        return NULL;
    }
    s->devices = device_count(s);
    s->generation = atomic_load(&s->limits->generation);
    return s;
}

void share_close(struct share *s)
{
    if (s->limits)
        munmap((void *)s->limits, sizeof *s->limits);
    if (s->grants)
        munmap(s->grants, sizeof *s->grants);
    if (s->usage)
        munmap(s->usage, sizeof *s->usage);
    if (s->usage_file >= 0)
        close(s->usage_file);
    free(s);
}

/* An odd generation is being written: the next look sees it. */
bool share_refresh(struct share *s)
{
    uint64_t generation = atomic_load_explicit(&s->limits->generation, memory_order_acquire);
    if (generation == s->generation || generation & 1)
        return false;
    s->generation = generation;
    return true;
}

struct arb_limits share_limits(const struct share *s, uint32_t device)
{
    const struct fence_device_limit *limit = &s->limits->device[device];
    uint32_t milli = limit->gpu_milli < 1000 ? limit->gpu_milli : 1000;
    return (struct arb_limits){milli, limit->sharing, limit->weight, limit->priority};
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void copy_claims(void *context)
{
    struct share *s = context;
    for (uint32_t d = 0; d < s->devices; d++) {
        struct arb_seen seen = {.charged_ns = atomic_load_explicit(&s->usage->device[d].charged_ns, memory_order_relaxed)};
        for (const struct process *p = s->processes; p; p = p->next) {
            const struct fence_slot_device *used = &s->usage->slot[p->slot].device[d];
            uint64_t inflight = atomic_load_explicit(&used->inflight_ns, memory_order_acquire);
            seen.inflight_ns = sum(seen.inflight_ns, inflight);
            if (!p->seen)
                s->seat[d].member.joined_ns = sum(s->seat[d].member.joined_ns, inflight);
            seen.waiters += atomic_load_explicit(&used->waiters, memory_order_relaxed) != 0;
        }
        s->seat[d].member.seen = seen;
    }
}

/* A file that is whole again is read again. The tenant that cut it has lost what was in it; no other allocation is touched. */
bool share_read_claims(struct share *s)
{
    bool whole = run_guarded(copy_claims, s);
    for (struct process *p = s->processes; whole && p; p = p->next)
        p->seen = true;
    if (!whole)
        for (uint32_t d = 0; d < s->devices; d++)
            s->seat[d].member.seen = (struct arb_seen){.charged_ns = s->seat[d].member.seen.charged_ns};
    if (!whole && !s->damaged)
        report("event\t%s\tdamaged\tthe usage region was cut short", s->name);
    s->damaged = !whole;
    return whole;
}

void share_report_event(struct share *s, const char *event, pid_t pid)
{
    uint64_t now = now_ns();
    if (s->reported_ns && now < s->reported_ns + COMPLAIN_NS)
        return;
    s->reported_ns = now;
    report("event\t%s\t%s\t%d", s->name, event, (int)pid);
}

void share_report_wake(struct share *s, pid_t pid)
{
    uint64_t now = now_ns();
    if (s->woke_ns && now < s->woke_ns + COMPLAIN_NS / 2)
        return;
    s->woke_ns = now;
    report("event\t%s\twake\t%d", s->name, (int)pid);
}

void share_resume_sums(struct share *s, uint32_t device)
{
    const struct fence_grant *grant = &s->grants->device[device];
    s->seat[device].member.borrowed_ns = atomic_load_explicit(&grant->borrowed_ns, memory_order_relaxed);
    s->seat[device].member.denied_ns = atomic_load_explicit(&grant->denied_ns, memory_order_relaxed);
}

static void wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void share_wake_opened(struct share *s)
{
    wake((_Atomic uint32_t *)&s->limits->flags);
    s->woke_ns = 0;
}

void share_publish_grant(struct share *s, uint32_t device, uint64_t now)
{
    struct fence_grant *grant = &s->grants->device[device];
    struct arb_word *word = &s->seat[device].member.word;
    atomic_store_explicit(&grant->granted_ns, word->granted_ns, memory_order_relaxed);
    atomic_store_explicit(&grant->window_ns, word->window_ns, memory_order_relaxed);
    atomic_store_explicit(&grant->lease_until_ns, word->lease_until_ns, memory_order_release);
    atomic_store_explicit(&grant->holder, (uint32_t)word->holding, memory_order_relaxed);
    atomic_store_explicit(&grant->beat_ns, now, memory_order_relaxed);
    atomic_store_explicit(&grant->borrowed_ns, s->seat[device].member.borrowed_ns, memory_order_relaxed);
    atomic_store_explicit(&grant->denied_ns, s->seat[device].member.denied_ns, memory_order_relaxed);
    if (!word->wake)
        return;
    word->wake = false;
    atomic_fetch_add_explicit(&grant->word, 1, memory_order_release);
    wake(&grant->word);
}
