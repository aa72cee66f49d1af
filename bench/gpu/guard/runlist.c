#include "runlist.h"
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

bool runlist_group(struct watch *watch, struct group *group)
{
    pthread_mutex_lock(&watch->lock);
    const struct group *found = ledger_compute_group(&watch->ledger);
    if (found)
        *group = *found;
    pthread_mutex_unlock(&watch->lock);
    return found != NULL;
}

static int control(const struct watch *watch, const struct group *group, uint32_t object, uint32_t command, void *params,
                   uint32_t size)
{
    struct rm_control asked = {group->root, object, command, 0, (uintptr_t)params, size, 0};
    int descriptor = (int)syscall(SYS_pidfd_getfd, watch->pidfd, group->descriptor, 0);
    if (descriptor < 0)
        return -errno;
    int failed = ioctl(descriptor, _IOWR('F', RM_CONTROL, struct rm_control), &asked) ? -errno : 0;
    close(descriptor);
    return failed ? failed : (int)asked.status;
}

int runlist_get_timeslice(const struct watch *watch, const struct group *group, uint64_t *microseconds)
{
    struct timeslice_params params = {0};
    int status = control(watch, group, group->handle, CONTROL_GROUP_GET_TIMESLICE, &params, sizeof params);
    *microseconds = params.microseconds;
    return status;
}

int runlist_set_timeslice(const struct watch *watch, const struct group *group, uint64_t microseconds)
{
    struct timeslice_params params = {microseconds};
    return control(watch, group, group->handle, CONTROL_GROUP_SET_TIMESLICE, &params, sizeof params);
}

int runlist_schedule(const struct watch *watch, const struct group *group, bool enable)
{
    struct schedule_params params = {.enable = enable};
    if (group->schedule_size > sizeof params)
        return -EMSGSIZE;
    return control(watch, group, group->handle, CONTROL_GROUP_SCHEDULE, &params, group->schedule_size);
}

int runlist_commit(const struct watch *watch, const struct group *group)
{
    struct restart_params params = {.force = 1};
    return control(watch, group, group->channel, CONTROL_RESTART_RUNLIST, &params, sizeof params);
}
