#define _GNU_SOURCE
#include "spec.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/small_file.h"

static const char HEADER[] = "gpupool-job 1\n";

static const struct {
    const char *name;
    int resource;
} LIMITS[] = {
    {"as", RLIMIT_AS},           {"core", RLIMIT_CORE},         {"cpu", RLIMIT_CPU},
    {"data", RLIMIT_DATA},       {"fsize", RLIMIT_FSIZE},       {"locks", RLIMIT_LOCKS},
    {"memlock", RLIMIT_MEMLOCK}, {"msgqueue", RLIMIT_MSGQUEUE}, {"nice", RLIMIT_NICE},
    {"nofile", RLIMIT_NOFILE},   {"nproc", RLIMIT_NPROC},       {"rss", RLIMIT_RSS},
    {"rtprio", RLIMIT_RTPRIO},   {"rttime", RLIMIT_RTTIME},     {"sigpending", RLIMIT_SIGPENDING},
    {"stack", RLIMIT_STACK},
};

static bool read_id(const char *value, uint64_t *id)
{
    return parse_number(value, UINT32_MAX - 1, id); /* the last one means "unchanged" to the kernel */
}

static bool read_path(char *value, char **path)
{
    *path = value;
    return value[0] == '/' && strlen(value) < 4096;
}

static bool read_limit_value(const char *text, rlim_t *value)
{
    uint64_t number;

    if (strcmp(text, "unlimited") == 0) {
        *value = RLIM_INFINITY;
        return true;
    }
    if (!parse_number(text, UINT64_MAX - 1, &number))
        return false;
    *value = number;
    return true;
}

/* NAME:soft:hard */
static bool read_limit(struct spec *spec, char *value)
{
    char *soft = strchr(value, ':');
    char *hard = soft ? strchr(soft + 1, ':') : NULL;

    if (!hard || spec->limit_count == RLIM_NLIMITS)
        return false;
    *soft++ = *hard++ = '\0';
    struct limit *limit = &spec->limits[spec->limit_count];
    if (!read_limit_value(soft, &limit->value.rlim_cur) || !read_limit_value(hard, &limit->value.rlim_max))
        return false;
    for (size_t i = 0; i < sizeof LIMITS / sizeof LIMITS[0]; i++)
        if (strcmp(value, LIMITS[i].name) == 0) {
            limit->resource = LIMITS[i].resource;
            spec->limit_count++;
            return limit->value.rlim_cur <= limit->value.rlim_max;
        }
    return false;
}

static bool read_device_number(const char *text, int64_t *value)
{
    uint64_t number;

    if (strcmp(text, "*") == 0) {
        *value = -1;
        return true;
    }
    if (!parse_number(text, (1u << 20) - 1, &number))
        return false;
    *value = (int64_t)number;
    return true;
}

/* "c MAJOR:MINOR rwm" */
static bool read_device(char *value, struct device_rule *rules, size_t *count)
{
    char *colon = strchr(value, ':');
    char *space = colon ? strchr(colon, ' ') : NULL;

    if (!space || *count == SPEC_MAX_DEVICES || (value[0] != 'c' && value[0] != 'b') || value[1] != ' ')
        return false;
    *colon = *space = '\0';
    struct device_rule *rule = &rules[(*count)++];
    rule->type = value[0];
    rule->access = 0;
    for (const char *access = space + 1; *access; access++) {
        if (!strchr("rwm", *access))
            return false;
        rule->access |= *access == 'r' ? DEVICE_READ : *access == 'w' ? DEVICE_WRITE : DEVICE_MKNOD;
    }
    return rule->access && read_device_number(value + 2, &rule->major) &&
           read_device_number(colon + 1, &rule->minor);
}

static bool read_umask(struct spec *spec, const char *value)
{
    char *end;
    unsigned long mask = strtoul(value, &end, 8);

    if (*value < '0' || *value > '7' || *end || mask > 0777)
        return false;
    spec->umask = (mode_t)mask;
    return true;
}

static bool read_list(char *value, bool *has, unsigned long *bits, size_t count)
{
    *has = true;
    return numa_read_list(value, bits, count);
}

static bool read_group(struct spec *spec, const char *value)
{
    uint64_t id;

    if (spec->group_count == SPEC_MAX_GROUPS || !read_id(value, &id))
        return false;
    spec->groups[spec->group_count++] = (gid_t)id;
    return true;
}

static bool read_cgroup(struct spec *spec, char *value)
{
    if (spec->cgroup_count == SPEC_MAX_CGROUPS || strstr(value, "/../"))
        return false;
    return read_path(value, &spec->cgroups[spec->cgroup_count++]);
}

static bool read_stdio(struct spec *spec, const char *value)
{
    spec->attach = strcmp(value, "attach") == 0;
    return spec->attach || strcmp(value, "log") == 0;
}

static bool read_environment(struct spec *spec, char *value)
{
    const char *equals = strchr(value, '=');

    spec->environment[spec->environment_count++] = value;
    return equals && equals != value;
}

static bool read_unmounted(struct spec *spec, char *value)
{
    const char *equals = strchr(value, '=');

    spec->unmounted[spec->unmounted_count++] = value;
    return equals && equals != value;
}

/* "SOURCE\nTARGET": a line break is the one character that no path we make has. */
static bool read_bind(struct spec *spec, char *value, bool writable)
{
    char *target = strchr(value, '\n');

    if (!target || spec->bind_count == SPEC_MAX_BINDS)
        return false;
    *target++ = '\0';
    struct bind *bind = &spec->binds[spec->bind_count++];
    bind->writable = writable;
    return read_path(value, &bind->source) && read_path(target, &bind->target) && !strchr(target, '\n');
}

/* "NAMESPACE\nINTERFACE" */
static bool read_tap(struct spec *spec, char *value)
{
    char *interface = strchr(value, '\n');

    if (!interface || spec->tap)
        return false;
    *interface++ = '\0';
    spec->tap = interface;
    return read_path(value, &spec->tap_namespace) && *interface && strlen(interface) < IF_NAMESIZE && !strchr(interface, '/') &&
           !strchr(interface, '\n');
}

static bool read_argument(struct spec *spec, char *value)
{
    spec->arguments[spec->argument_count++] = value;
    return true;
}

/* 1: obeyed, 0: the value is wrong, -1: no such key. */
static int read_ids(struct spec *spec, const char *key, char *value)
{
    uint64_t id;

    if (strcmp(key, "group") == 0)
        return read_group(spec, value);
    if (strcmp(key, "uid") && strcmp(key, "gid") && strcmp(key, "owner_uid"))
        return -1;
    if (!read_id(value, &id))
        return 0;
    if (key[0] == 'o') {
        spec->owner_uid = (uid_t)id;
    } else if (key[0] == 'u') {
        spec->uid = (uid_t)id;
        spec->has_uid = true;
    } else {
        spec->gid = (gid_t)id;
        spec->has_gid = true;
    }
    return 1;
}

static int read_numbers(struct spec *spec, const char *key, const char *value)
{
    const struct {
        const char *name;
        uint64_t *where, min, max;
    } numbers[] = {
        {"log_max_bytes", &spec->log_max_bytes, SPEC_MIN_LOG_BYTES, 1ull << 50},
        {"log_files", &spec->log_files, 1, SPEC_MAX_LOG_FILES},
        {"max_seconds", &spec->max_seconds, 1, SPEC_MAX_SECONDS},
        {"grace_seconds", &spec->grace_seconds, 0, SPEC_MAX_SECONDS},
        {"attach_seconds", &spec->attach_seconds, 1, SPEC_MAX_SECONDS},
    };

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(key, numbers[i].name) == 0)
            return parse_number(value, numbers[i].max, numbers[i].where) && *numbers[i].where >= numbers[i].min;
    return -1;
}

static int read_record(struct spec *spec, const char *key, char *value)
{
    int known = read_ids(spec, key, value);

    if (known < 0)
        known = read_numbers(spec, key, value);
    if (known >= 0)
        return known;
    if (strcmp(key, "arg") == 0)
        return read_argument(spec, value);
    if (strcmp(key, "env") == 0)
        return read_environment(spec, value);
    if (strcmp(key, "cwd") == 0)
        return read_path(value, &spec->directory);
    if (strcmp(key, "umask") == 0)
        return read_umask(spec, value);
    if (strcmp(key, "cpus") == 0)
        return read_list(value, &spec->has_cpus, spec->cpus, SPEC_MAX_CPUS);
    if (strcmp(key, "memory_nodes") == 0)
        return read_list(value, &spec->has_memory_nodes, spec->memory_nodes, SPEC_MAX_NUMA);
    if (strcmp(key, "rlimit") == 0)
        return read_limit(spec, value);
    if (strcmp(key, "stdio") == 0)
        return read_stdio(spec, value);
    if (strcmp(key, "share_dir") == 0)
        return read_path(value, &spec->share_directory);
    if (strcmp(key, "share_mount") == 0)
        return read_path(value, &spec->share_mount);
    if (strcmp(key, "netns") == 0)
        return read_path(value, &spec->network_namespace);
    if (strcmp(key, "tap") == 0)
        return read_tap(spec, value);
    if (strcmp(key, "bind_ro") == 0 || strcmp(key, "bind_rw") == 0)
        return read_bind(spec, value, key[6] == 'w');
    if (strcmp(key, "unmounted_env") == 0)
        return read_unmounted(spec, value);
    if (strcmp(key, "cgroup") == 0)
        return read_cgroup(spec, value);
    if (strcmp(key, "device_deny") == 0)
        return read_device(value, spec->deny, &spec->deny_count);
    if (strcmp(key, "device_allow") == 0)
        return read_device(value, spec->allow, &spec->allow_count);
    if (strcmp(key, "job") == 0) {
        spec->job = value;
        return *value != '\0' && strlen(value) <= 128;
    }
    return -1;
}

/* Checks what the records say together, for the user that the supervisor runs as. */
static bool check_whole(struct spec *spec, char *why, size_t size)
{
    if (!spec->job || !spec->argument_count || !spec->directory)
        snprintf(why, size, "spec: %s= is missing", !spec->job ? "job" : !spec->directory ? "cwd" : "arg");
    else if (geteuid() != 0 && ((spec->has_uid && spec->uid != getuid()) || (spec->has_gid && spec->gid != getgid())))
        snprintf(why, size, "spec: uid %u gid %u asked, but this supervisor runs as %u:%u and is not root",
                 spec->uid, spec->gid, getuid(), getgid());
    else if (spec->has_uid && spec->uid != 0 && !spec->has_gid)
        snprintf(why, size, "spec: uid= is given without gid=");
    else if (!spec->share_directory != !spec->share_mount)
        snprintf(why, size, "spec: share_dir= and share_mount= go together");
    else if (!spec->share_directory && (spec->bind_count || spec->unmounted_count))
        snprintf(why, size, "spec: bind_ro=, bind_rw= and unmounted_env= need a share_dir=");
    else if ((spec->deny_count || spec->allow_count) && !spec->cgroup_count)
        snprintf(why, size, "spec: device rules need a cgroup=");
    else
        return true;
    return false;
}

static void set_defaults(struct spec *spec)
{
    spec->uid = getuid();
    spec->gid = getgid();
    spec->owner_uid = geteuid();
    spec->log_max_bytes = 16u << 20;
    spec->log_files = 4;
    spec->umask = 022;
    spec->grace_seconds = 10;
    spec->attach_seconds = 30;
}

static bool allocate(struct spec *spec, size_t records)
{
    /* Two places more in the environment for what the supervisor itself sets, one for the end. */
    spec->arguments = calloc(records + 1, sizeof *spec->arguments);
    spec->environment = calloc(records + 3, sizeof *spec->environment);
    spec->unmounted = calloc(records + 1, sizeof *spec->unmounted);
    spec->groups = calloc(records + 1, sizeof *spec->groups);
    return spec->arguments && spec->environment && spec->unmounted && spec->groups;
}

static size_t count_records(const char *from, const char *end)
{
    size_t count = 0;

    for (; from < end; from++)
        count += *from == '\0';
    return count;
}

bool spec_parse(struct spec *spec, char *buffer, size_t length, char *why, size_t why_size)
{
    size_t header = sizeof HEADER - 1;
    char *record = buffer + header, *end = buffer + length;

    memset(spec, 0, sizeof *spec);
    spec->buffer = buffer;
    set_defaults(spec);
    if (length < header || memcmp(buffer, HEADER, header) != 0) {
        snprintf(why, why_size, "spec: the first line is not 'gpupool-job 1': written by another version?");
        return false;
    }
    if (length == header || end[-1] != '\0' || !allocate(spec, count_records(record, end))) {
        snprintf(why, why_size, "spec: cut short at %zu bytes", length);
        return false;
    }
    while (record < end) {
        char *next = record + strlen(record) + 1;
        char *value = strchr(record, '=');
        if (value)
            *value++ = '\0';
        int known = value ? read_record(spec, record, value) : -1;
        if (known != 1) {
            snprintf(why, why_size, known ? "spec: unknown key '%.40s'; this supervisor is older than what wrote it"
                                          : "spec: bad value for %.40s=",
                     record);
            make_one_line(why);
            return false;
        }
        record = next;
    }
    return check_whole(spec, why, why_size);
}

bool spec_read(struct spec *spec, int directory, char *why, size_t why_size)
{
    int fd = openat(directory, "spec", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat status;
    char *buffer = NULL;
    size_t have = 0;
    ssize_t got = -1;

    memset(spec, 0, sizeof *spec);
    if (fd < 0 || fstat(fd, &status) < 0) {
        snprintf(why, why_size, "spec: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || status.st_size > SPEC_MAX_BYTES) {
        snprintf(why, why_size, "spec: must be a plain file of uid %u with at most %u bytes", geteuid(), SPEC_MAX_BYTES);
        close(fd);
        return false;
    }
    size_t size = (size_t)status.st_size;
    buffer = malloc(size + 1);
    while (buffer && have < size && (got = read(fd, buffer + have, size - have)) > 0)
        have += (size_t)got;
    close(fd);
    if (!buffer || have < size) {
        snprintf(why, why_size, "spec: could not be read");
        free(buffer);
        return false;
    }
    buffer[size] = '\0';
    return spec_parse(spec, buffer, size, why, why_size);
}

void spec_free(struct spec *spec)
{
    free(spec->arguments);
    free(spec->environment);
    free(spec->unmounted);
    free(spec->groups);
    free(spec->buffer);
}
