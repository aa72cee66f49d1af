/* Parses and checks the file JOB/spec, in which the agent describes the job. One error refuses the whole file. */
#ifndef GPUPOOL_SPEC_H
#define GPUPOOL_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "isolation/numa.h"

#define SPEC_MAX_BYTES (4u * 1024 * 1024)
#define SPEC_MAX_CGROUPS 16
#define SPEC_MAX_DEVICES 512
#define SPEC_MAX_GROUPS 65536
#define SPEC_MAX_BINDS 256
#define SPEC_MAX_SECONDS (100ull * 366 * 86400)
#define SPEC_MAX_LOG_FILES 100
#define SPEC_MIN_LOG_BYTES 4096
#define SPEC_MAX_CPUS 65536
#define SPEC_MAX_NUMA 1024

enum { DEVICE_READ = 1, DEVICE_WRITE = 2, DEVICE_MKNOD = 4 };

struct device_rule {
    char type;           /* 'c' or 'b' */
    int64_t major, minor; /* -1: any */
    unsigned access;     /* DEVICE_* bits */
};

/* A directory or file of the host, and where the job alone sees it. */
struct bind {
    char *source, *target;
    bool writable;
};

struct limit {
    int resource;
    struct rlimit value;
};

struct spec {
    char *buffer; /* the file; every pointer below points into it */
    char *job;
    char **arguments, **environment; /* NULL-terminated */
    size_t argument_count, environment_count;
    char *directory;
    uid_t uid, owner_uid;
    gid_t gid;
    bool has_uid, has_gid;
    gid_t *groups;
    size_t group_count;
    mode_t umask;
    bool has_cpus, has_memory_nodes;
    unsigned long cpus[SPEC_MAX_CPUS / NUMA_WORD], memory_nodes[SPEC_MAX_NUMA / NUMA_WORD];
    struct limit limits[RLIM_NLIMITS];
    size_t limit_count;
    bool attach; /* stdio=attach, else stdio=log */
    uint64_t log_max_bytes, log_files;
    char *share_directory, *share_mount;
    struct bind binds[SPEC_MAX_BINDS];
    size_t bind_count;
    char **unmounted; /* environment that counts only where the share could not be mounted */
    size_t unmounted_count;
    uint64_t max_seconds, grace_seconds, attach_seconds; /* max_seconds 0: no limit */
    char *cgroups[SPEC_MAX_CGROUPS];
    size_t cgroup_count;
    struct device_rule deny[SPEC_MAX_DEVICES], allow[SPEC_MAX_DEVICES];
    size_t deny_count, allow_count;
    char *network_namespace; /* a path; NULL: the supervisor's own */
    char *tap_namespace, *tap; /* a path, and an interface in it; NULL: the command gets none */
};

/* Reads `length` bytes at spec->buffer (which must have room for one byte more). false: `why` says what is wrong. */
bool spec_parse(struct spec *spec, char *buffer, size_t length, char *why, size_t why_size);

/* Reads the file `spec` in a directory. */
bool spec_read(struct spec *spec, int directory, char *why, size_t why_size);

void spec_free(struct spec *spec);

#endif
