/* cuCheckpointProcess*: suspend another process by its pid and bring it back. The states are the process's, in the machine,
   so every caller sees the same. These calls pass the gate: a process may unlock itself. */
#include "driver.h"

#include <errno.h>
#include <time.h>

#include "devices/card.h"
#include "machine/machine.h"

#define NS_PER_MS 1000000ull

#define KNOWN() \
    do { \
        if (driver_state != DRIVER_READY) \
            return driver_refusal(); \
    } while (0)

static CUresult answer_of(int answer)
{
    switch (answer) {
    case -ESRCH:
        return CUDA_ERROR_INVALID_VALUE;
    case -EPERM:
        return CUDA_ERROR_NOT_PERMITTED;
    case -EPROTO:
        return CUDA_ERROR_ILLEGAL_STATE;
    case -ETIMEDOUT:
    case -EBUSY:
        return CUDA_ERROR_NOT_READY;
    case -ENOTSUP:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return card_result(answer);
    }
}

static void move_bytes(int pid)
{
    uint64_t until = sim_monotonic_ns() + sim_move_ns(card_machine(), pid);
    struct timespec moment = {(time_t)(until / 1000000000ull), (long)(until % 1000000000ull)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL) == EINTR) {
    }
}

CUresult cuCheckpointProcessGetState(int pid, CUprocessState *state)
{
    static const CUprocessState states[] = {
        [SIM_RUNNING] = CU_PROCESS_STATE_RUNNING,
        [SIM_LOCKED] = CU_PROCESS_STATE_LOCKED,
        [SIM_SUSPENDED] = CU_PROCESS_STATE_CHECKPOINTED,
    };
    uint32_t found = 0;

    KNOWN();
    REQUIRE(state, CUDA_ERROR_INVALID_VALUE);
    TRY(answer_of(sim_suspension(card_machine(), pid, &found)));
    *state = found <= SIM_SUSPENDED ? states[found] : CU_PROCESS_STATE_FAILED;
    return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *arguments)
{
    KNOWN();
    unsigned milliseconds = arguments ? arguments->timeoutMs : 0;
    uint64_t until = milliseconds ? sim_monotonic_ns() + milliseconds * NS_PER_MS : UINT64_MAX;
    return answer_of(sim_lock_process(card_machine(), pid, until));
}

/* The charge leaves the card when the bytes have: until then the process is only locked. */
CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *arguments)
{
    uint32_t state = 0;

    KNOWN();
    REQUIRE(!arguments || !arguments->customStorageInfo_out, CUDA_ERROR_NOT_SUPPORTED);
    TRY(answer_of(sim_suspension(card_machine(), pid, &state)));
    REQUIRE(state == SIM_LOCKED, CUDA_ERROR_ILLEGAL_STATE);
    move_bytes(pid);
    return answer_of(sim_suspend_process(card_machine(), pid));
}

/* The charge comes first: no byte moves to a card that has no room for all. */
CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *arguments)
{
    KNOWN();
    REQUIRE(!arguments || (!arguments->gpuPairs && !arguments->customStorageInfo_out), CUDA_ERROR_NOT_SUPPORTED);
    TRY(answer_of(sim_restore_process(card_machine(), pid)));
    move_bytes(pid);
    return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *arguments)
{
    (void)arguments;
    KNOWN();
    return answer_of(sim_unlock_process(card_machine(), pid));
}

/* The thread that a restore must come from: any, so the first one's. */
CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *thread)
{
    uint32_t state = 0;

    KNOWN();
    REQUIRE(thread, CUDA_ERROR_INVALID_VALUE);
    TRY(answer_of(sim_suspension(card_machine(), pid, &state)));
    *thread = pid;
    return CUDA_SUCCESS;
}
