/* Checks whether a connection may speak for a slot: a packet only claims it, the kernel says which process sent it. */
#ifndef GPUPOOL_ARBITER_CREDENTIALS_H
#define GPUPOOL_ARBITER_CREDENTIALS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* `pid` has, in its own pid namespace or in one above, the pid of the owner word, and its namespace is the one that the
   slot names (0: not named yet). Call it with a pidfd of the process open and still alive, so that the pid is not reused. */
bool is_slot_owner(pid_t pid, uint64_t owner, uint64_t pid_namespace);

/* Only root and the user that the usage region belongs to may ring. A region that is open to every user (mode 0666: a
   container's, in a directory of root's) lets every user ring. */
bool may_ring(uid_t uid, uid_t region_owner, mode_t region_mode);

#endif
