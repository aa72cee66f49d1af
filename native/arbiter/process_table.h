/* The processes of an allocation. The kernel tells which process has a slot (SO_PEERCRED), a pidfd tells that it has ended. */
#ifndef GPUPOOL_ARBITER_PROCESS_TABLE_H
#define GPUPOOL_ARBITER_PROCESS_TABLE_H

#include "share.h"

/* Takes up the slots that an earlier arbiter left: the dead are cleared, the living watched. */
void adopt_processes(struct share *share);

/* PROCESS_STRANGER: the slot is not that process's. PROCESS_FAILED: the region is cut short, or there is no memory. */
enum process_answer { PROCESS_ENTERED, PROCESS_STRANGER, PROCESS_FAILED };

/* `pid` says that it has `slot`. Where the slot's owner word agrees, the process is watched from now on and its pid is
   written into the slot. `pidfd` is taken over if it entered. */
enum process_answer enter_process(struct share *share, pid_t pid, int pidfd, uint32_t slot);

/* Its pidfd says that it has ended: its slot is cleared, the record freed. */
void remove_process(struct process *process);

void forget_processes(struct share *share);

#endif
