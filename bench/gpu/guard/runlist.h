/* Control calls on channel groups of a watched tenant, through copies of its own descriptors. */
#ifndef GUARD_RUNLIST_H
#define GUARD_RUNLIST_H

#include "watch.h"

/* Its compute group, copied out; false: the watcher has not seen one whole. */
bool runlist_group(struct watch *watch, struct group *group);

/* Each returns 0, the driver's status, or minus an errno. Nothing outside the tenant's own group is named. */
int runlist_get_timeslice(const struct watch *watch, const struct group *group, uint64_t *microseconds);
int runlist_set_timeslice(const struct watch *watch, const struct group *group, uint64_t microseconds);
int runlist_schedule(const struct watch *watch, const struct group *group, bool enable);
int runlist_commit(const struct watch *watch, const struct group *group);

#endif
