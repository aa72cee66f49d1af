#include "clock.h"

#include "process/state.h"

__thread struct fence_clock fence_clock __attribute__((tls_model("initial-exec")));

#if defined(__x86_64__)

#include <cpuid.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SPAN_NS 1000000ull      /* a rate that is 1000 ppm off is a microsecond off then */
#define MEASURED_NS 20000000ull /* what a rate is measured over: two readings of 100 ns make 10 ppm */
#define WRONG_NS 2000u          /* so far off after a span, the rate is not this machine's any more (another host, another counter) */
#define READING_TICKS 2000u     /* a reading between whose ends more passed was interrupted */
#define INVARIANT (1u << 8)     /* CPUID 80000007, EDX: the counter stands still and changes its pace in no state of the processor */

#define KERNELS_CHOICE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

/* Of the process. A lost update costs another measurement. */
static _Atomic uint64_t rate, first_ticks, first_ns;
static bool usable;
static pthread_once_t looked = PTHREAD_ONCE_INIT;

static bool is_invariant(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && d & INVARIANT;
}

/* Only the kernel knows whether the counters of all processors go together: it uses them itself then. */
static bool kernel_uses_it(void)
{
    char name[16] = "";
    int file = open(KERNELS_CHOICE, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t size = read(file, name, sizeof name - 1);
    close(file);
    return size > 0 && !strcmp(name, "tsc\n");
}

static void look(void)
{
    int allowed = 0;
    usable = is_invariant() && !prctl(PR_GET_TSC, &allowed) && allowed == PR_TSC_ENABLE && kernel_uses_it();
}

static void begin_anew(uint64_t ticks, uint64_t ns)
{
    atomic_store(&rate, 0);
    atomic_store(&first_ticks, ticks);
    atomic_store(&first_ns, ns);
}

/* How far the last span of this thread counted wrong. */
static bool is_wrong(uint64_t ticks, uint64_t ns)
{
    uint64_t since = ticks - fence_clock.ticks;
    if (fence_clock.span == 0 || since > 4 * fence_clock.span)
        return false;
    uint64_t counted = fence_clock.ns + (since * fence_clock.rate >> 32);
    return (counted > ns ? counted - ns : ns - counted) > WRONG_NS;
}

static void measure(uint64_t ticks, uint64_t ns)
{
    uint64_t before = atomic_load(&first_ns), passed = ns - before, counted = ticks - atomic_load(&first_ticks);
    if (before == 0 || ns < before || counted == 0 || counted >> 62 || passed > UINT32_MAX)
        begin_anew(ticks, ns);
    else if (passed >= MEASURED_NS)
        atomic_store(&rate, (passed << 32) / counted);
}

uint64_t fence_clock_ask(void)
{
    uint64_t before = __rdtsc(), ns = fence_now_ns(), after = __rdtsc();
    pthread_once(&looked, look);
    if (!usable || after - before > READING_TICKS)
        return ns;
    uint64_t ticks = before + (after - before) / 2;
    if (is_wrong(ticks, ns))
        begin_anew(ticks, ns);
    if (atomic_load(&rate) == 0)
        measure(ticks, ns);
    uint64_t now_rate = atomic_load(&rate);
    fence_clock = (struct fence_clock){ticks, ns, now_rate ? (SPAN_NS << 32) / now_rate : 0, now_rate};
    return ns;
}

#else

uint64_t fence_clock_ask(void)
{
    return fence_now_ns();
}

#endif
