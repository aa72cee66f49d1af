#include "bus_error.h"

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

static sigjmp_buf back;
static volatile sig_atomic_t armed;

static void on_bus_error(int signal_number)
{
    if (armed)
        siglongjmp(back, 1);
    signal(signal_number, SIG_DFL); /* not a tenant's doing: die of it */
}

bool install_bus_error_guard(void)
{
    /* SA_NODEFER: the mask need not be saved and restored, so a guard costs no system call. */
    struct sigaction action = {.sa_handler = on_bus_error, .sa_flags = SA_NODEFER};
    return sigaction(SIGBUS, &action, NULL) == 0;
}

bool run_guarded(void (*work)(void *context), void *context)
{
    if (sigsetjmp(back, 0)) {
        armed = 0;
        return false;
    }
    armed = 1;
    work(context);
    armed = 0;
    return true;
}
