/* The state of the one job of this supervisor, which all its parts share. */
#ifndef GPUPOOL_JOB_H
#define GPUPOOL_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "isolation/cgroup.h"
#include "log.h"
#include "spec.h"

/* Exit statuses of `gpupool-shim JOBDIR`, part of the contract with the agent (docs/reference/supervisor.md). */
enum {
    SHIM_STARTED = 0,
    SHIM_USAGE = 2,
    SHIM_BAD_SPEC = 10,
    SHIM_ALREADY_STARTED = 11,
    SHIM_LOCKED = 12,
    SHIM_FAILED_TO_START = 13,
    SHIM_SYSTEM = 14,
};

enum phase { PHASE_WAITING, PHASE_STARTING, PHASE_RUNNING, PHASE_ENDING };
enum reason { REASON_NONE, REASON_STOPPED, REASON_INTERRUPTED, REASON_MAX_TIME, REASON_FAILED_TO_START };

#define MAX_CONNECTIONS 16
#define RESERVED_CONNECTIONS 4 /* for the owner: a job that connects to itself over and over cannot shut him out */
#define LINE_BYTES 1024
#define NEVER UINT64_MAX

struct connection {
    int fd;
    bool greeted, waiting, privileged, writes_log;
    int passed[3]; /* descriptors that came with the last bytes */
    unsigned passed_count;
    size_t have;
    char line[LINE_BYTES];
};

struct job {
    struct spec spec;
    struct cgroups cgroups;
    struct log log;
    int directory, signals, listener, launcher, report, log_pipe, terminal;
    struct connection connections[MAX_CONNECTIONS];
    int attached; /* index of the connection that has the terminal or gave the descriptors; -1: none */

    enum phase phase;
    enum reason reason;
    pid_t command; /* 0 once reaped */
    pid_t command_was;
    uint64_t command_ticks; /* its start time as /proc/PID/stat counts it */
    int wait_status;
    bool has_status, share_mounted;
    uint64_t started_wall_ns, started_boot_ns, ended_wall_ns, ended_boot_ns;
    uint64_t attach_by, terminate_at, kill_at, sweep_at, give_up_at, drain_at; /* CLOCK_MONOTONIC ns or NEVER */
    uint64_t sweep_interval_ns;
    size_t leftover;
    uint64_t memory_peak_bytes;
    bool has_memory_peak;
    bool out_of_memory; /* the kernel ended a process for want of host memory */
    uint64_t memory_limit_bytes;

    int error; /* why the command did not start */
    char stage[24], message[256], share_refused[128];
};

/* The job has failed before its command ran. */
void job_fail(struct job *job, int error, const char *stage, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* SIGTERM to everything now, SIGKILL after `grace` seconds. */
void job_stop(struct job *job, uint64_t grace_seconds, enum reason reason);

/* A signal to the command's process group. 0, or -1 and errno. */
int job_signal(struct job *job, int number);

#endif
