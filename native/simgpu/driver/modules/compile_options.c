/* What a compiler would write back into its caller's options: here no log, and no time. */
#include "module.h"

#include <string.h>

void jit_options_answer(unsigned count, const CUjit_option *options, void **values)
{
    for (unsigned at = 0; at < count; ++at) {
        switch (options[at]) {
        case CU_JIT_WALL_TIME: /* a float in the place of the pointer */
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            memset(&values[at], 0, sizeof values[at]);
            break;
        case CU_JIT_INFO_LOG_BUFFER:
        case CU_JIT_ERROR_LOG_BUFFER:
            if (values[at])
                *(char *)values[at] = 0;
            break;
        default:
            break;
        }
    }
}
