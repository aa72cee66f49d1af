#include "kernel.h"

int kernel_abi(void)
{
    return KERNEL_ABI;
}
