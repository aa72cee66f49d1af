#include "share_service.h"

#include <unistd.h>

#include "doorbell.h"
#include "process_table.h"

struct share *open_service(const char *name, const char *share_directory, const char *usage_directory, char *why, size_t size)
{
    struct share *s = share_open(name, share_directory, usage_directory, why, size);
    if (!s)
        return NULL;
    if (!doorbell_listen(s, usage_directory, why, size)) {
        close_service(s);
        return NULL;
    }
    s->grants->arbiter_pid = (uint64_t)getpid(); /* only now: a process that reads it may ring at once */
    adopt_processes(s);
    return s;
}

void close_service(struct share *s)
{
    forget_processes(s);
    doorbell_close(s);
    share_close(s);
}
