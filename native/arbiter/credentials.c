#include "credentials.h"

#include "process/process_id.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The line NSpid of proc(5): the process's pid in each namespace it is in, the reader's first. */
static bool has_pid(char *pids, pid_t wanted)
{
    char *rest = NULL;
    for (char *field = strtok_r(pids, " \t\n", &rest); field; field = strtok_r(NULL, " \t\n", &rest))
        if ((pid_t)strtol(field, NULL, 10) == wanted)
            return true;
    return false;
}

static bool is_named(pid_t pid, pid_t wanted)
{
    char path[64], line[512];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (!found && fgets(line, sizeof line, file))
        if (!strncmp(line, "NSpid:", 6))
            found = has_pid(line + 6, wanted);
    fclose(file);
    return found;
}

/* Another user's process does not show its namespace to an arbiter without root's rights; its pid must do then. */
static bool is_in_namespace(pid_t pid, uint64_t wanted)
{
    char path[64];
    struct stat found;
    snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)pid);
    return !wanted || stat(path, &found) || (uint64_t)found.st_ino == wanted;
}

bool is_slot_owner(pid_t pid, uint64_t owner, uint64_t pid_namespace)
{
    pid_t wanted = pid_of_owner(owner);
    return fence_owner_is_process(owner) && wanted > 0 && is_named(pid, wanted) && is_in_namespace(pid, pid_namespace);
}

bool may_ring(uid_t uid, uid_t region_owner, mode_t region_mode)
{
    return uid == 0 || uid == region_owner || region_mode & S_IWOTH;
}
