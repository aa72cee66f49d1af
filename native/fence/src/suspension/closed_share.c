#include "share_flags.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "process/reentry.h"
#include "process/state.h"
#include "work.h"

/* The arbiter wakes at once. The time is for a ring that was lost, and for a share that was opened while no arbiter ran. */
static void sleep_on(const _Atomic uint32_t *word, uint32_t seen)
{
    struct timespec at_most = {(time_t)(FENCE_WAKE_NS / 1000000000u), (long)(FENCE_WAKE_NS % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &at_most, NULL, 0);
}

void share_await_open(void)
{
    const _Atomic uint32_t *flags = atomic_load(&share_flags);
    uint32_t seen;
    while ((seen = atomic_load(flags)) & FENCE_SHARE_CLOSED) {
        if (!fence_ready())
            return; /* without a slot its calls are refused, and it cannot ring */
        fence_ring(FENCE_BELL_WAKE, 0);
        sleep_on(flags, seen);
    }
}

bool fence_wait_begin(void)
{
    return fence_enter();
}

CUresult fence_wait_end(bool begun, CUresult outcome)
{
    return begun ? fence_leave(outcome) : outcome;
}
