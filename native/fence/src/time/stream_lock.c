#include "stream_lock.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Longest that a sleeper may be overlooked. */
static const struct timespec at_most = {.tv_nsec = 200000};

void stream_lock_wait(struct stream_lock *lock)
{
    atomic_fetch_add(&lock->sleepers, 1);
    while (!stream_lock_try(lock))
        syscall(SYS_futex, &lock->taken, FUTEX_WAIT_PRIVATE, 1u, &at_most, NULL, 0);
    atomic_fetch_sub(&lock->sleepers, 1);
}

void stream_lock_wake(struct stream_lock *lock)
{
    syscall(SYS_futex, &lock->taken, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
