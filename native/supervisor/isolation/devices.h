/* Device rules of a job: a deny list, as v1 file writes or as a v2 device program. */
#ifndef GPUPOOL_DEVICES_H
#define GPUPOOL_DEVICES_H

#include <stdbool.h>
#include <stddef.h>

#include "cgroup.h"
#include "spec.h"

/* All rules are in force, or false: a job that was to be kept from a card must not start without that. */
bool devices_restrict(const struct cgroups *groups, const struct spec *spec, char *why, size_t size);

#endif
