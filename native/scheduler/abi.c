/* The version of the calls and structures, which Python checks when it loads the library. */
#include "scheduler.h"

int kernel_abi(void)
{
    return KERNEL_ABI;
}
