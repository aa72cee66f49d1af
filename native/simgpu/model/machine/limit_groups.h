/* Names of cgroups that mean the same to the process that sets a limit and to those that it holds.

   A name is "CONTROLLER:PATH" as a line of /proc/PID/cgroup has it, without its number: ":/job" in version 2, "memory:/job" in
   version 1, where the first controller of the hierarchy counts. A process in a cgroup namespace of its own sees other paths:
   the simulated driver believes what the process sees, since it is part of that process and never a boundary. */
#ifndef GPUPOOL_SIM_LIMIT_GROUPS_H
#define GPUPOOL_SIM_LIMIT_GROUPS_H

#include <stdbool.h>
#include <stddef.h>

#define SIM_GROUP_SIZE 4096

/* The name of the cgroup that this process sees at `directory`: 0, -ENOENT (none there), -ENOTSUP (a hierarchy's root). */
int sim_name_group(const char *directory, char name[SIM_GROUP_SIZE]);
/* Whether the group of a line of /proc/PID/cgroup, without its newline, is `name` or lies below it. */
bool sim_is_inside(const char *line, const char *name);

#endif
