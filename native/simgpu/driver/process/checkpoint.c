/* cuCheckpointProcess*: the states of a process and the moves between them. Only the states: no memory is moved, since a
   simulated card's memory lies on the host in any case. Each caller has its own view of them. */
#include "driver.h"

#include <signal.h>

#include "devices/card.h"
#include "machine/machine.h"

#define KNOWN_PROCESSES 64

static struct known {
    int pid;
    CUprocessState state;
} known[KNOWN_PROCESSES];

/* A process that is on a card of this machine. */
static bool on_a_card(int pid)
{
    struct sim_machine *machine = card_machine()->machine;
    uint32_t slots = machine->header.high_water;

    for (uint32_t at = 0; at < slots; ++at)
        if ((int)(machine->process[at].owner >> 32) == pid)
            return true;
    return false;
}

static CUresult find(int pid, struct known **out)
{
    struct known *vacant = NULL;

    REQUIRE(pid > 0 && on_a_card(pid), CUDA_ERROR_INVALID_VALUE);
    for (int at = 0; at < KNOWN_PROCESSES; ++at) {
        if (known[at].pid == pid) {
            *out = &known[at];
            return CUDA_SUCCESS;
        }
        if (!known[at].pid || !on_a_card(known[at].pid))
            vacant = &known[at];
    }
    REQUIRE(vacant, CUDA_ERROR_OUT_OF_MEMORY);
    *vacant = (struct known){pid, CU_PROCESS_STATE_RUNNING};
    *out = vacant;
    return CUDA_SUCCESS;
}

static CUresult move(int pid, CUprocessState from, CUprocessState to)
{
    struct known *process;

    LOCKED();
    TRY(find(pid, &process));
    REQUIRE(process->state == from, CUDA_ERROR_ILLEGAL_STATE);
    process->state = to;
    return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessGetState(int pid, CUprocessState *state)
{
    struct known *process;

    LOCKED();
    REQUIRE(state, CUDA_ERROR_INVALID_VALUE);
    TRY(find(pid, &process));
    *state = process->state;
    return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *arguments)
{
    (void)arguments;
    return move(pid, CU_PROCESS_STATE_RUNNING, CU_PROCESS_STATE_LOCKED);
}

CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *arguments)
{
    (void)arguments;
    return move(pid, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_CHECKPOINTED);
}

CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *arguments)
{
    (void)arguments;
    return move(pid, CU_PROCESS_STATE_CHECKPOINTED, CU_PROCESS_STATE_LOCKED);
}

CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *arguments)
{
    (void)arguments;
    return move(pid, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_RUNNING);
}

/* The thread that a restore must come from: any, so the first one's. */
CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *thread)
{
    struct known *process;

    LOCKED();
    REQUIRE(thread, CUDA_ERROR_INVALID_VALUE);
    TRY(find(pid, &process));
    *thread = pid;
    return CUDA_SUCCESS;
}
