/* Holds the launch path's clock against a system clock that this program makes: the machine's own, then one that goes a hundredth
   faster, as if the process had come to another machine. Prints the largest distance of each, in nanoseconds. */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "time/clock.h"

enum { MS = 1000000 };

static uint64_t faster_since, faster_by;

static uint64_t machine_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t system_ns(void)
{
    uint64_t now = machine_ns();
    return faster_since ? now + (now - faster_since) / faster_by : now;
}

uint64_t fence_now_ns(void)
{
    return system_ns();
}

/* The largest distance from the time between two looks at the system's clock: whoever interrupts this widens that. */
static uint64_t largest_error(uint64_t for_ns)
{
    uint64_t worst = 0, end = machine_ns() + for_ns;
    while (machine_ns() < end) {
        uint64_t before = system_ns(), now = fence_clock_ns(), after = system_ns();
        uint64_t off = now < before ? before - now : now > after ? now - after : 0;
        worst = off > worst ? off : worst;
    }
    return worst;
}

int main(void)
{
    uint64_t same = largest_error(100 * MS);
    faster_since = machine_ns();
    faster_by = 100;
    uint64_t faster = largest_error(100 * MS);
    printf("%llu %llu\n", (unsigned long long)same, (unsigned long long)faster);
    return 0;
}
