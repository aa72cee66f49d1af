/* Finds the pool and connects to its socket; client/transport.py and base/client_settings.py in C.
 *
 * Only pools on this machine, over their Unix socket: with a URL or a saved login the Python command goes there. */
#ifndef FRONT_POOL_H
#define FRONT_POOL_H

#include "common/text.h"

struct pool {
    struct text path;      /* of the socket, absolute */
    struct text directory; /* as `up --state-dir` is given it */
    bool implied;          /* no option or variable named it */
};

/* A Unix socket of any path length. A descriptor, or -1 and errno. */
int unix_connect(const char *path);
/* Finds the pool that is meant and connects: a descriptor, or -1 when Python must look for itself. */
int pool_find(const char *state_dir, struct pool *pool);

#endif
