/* The processes of an allocation: who they are by the kernel's word, and when they have ended. */
#ifndef GPUPOOL_ARBITER_PEOPLE_H
#define GPUPOOL_ARBITER_PEOPLE_H

#include "share.h"

/* Takes up the slots that an earlier arbiter left: the dead are cleared, the living watched. */
void people_adopt(struct share *share);

/* PEOPLE_STRANGER: the slot is not that process's. PEOPLE_FAILED: the region is cut short, or there is no memory. */
enum people_answer { PEOPLE_ENTERED, PEOPLE_STRANGER, PEOPLE_FAILED };

/* `pid` says that it has `slot`. Where the slot's owner word agrees, the process is watched from now on and its pid is
   written into the slot. `pidfd` is taken over if it entered. */
enum people_answer people_enter(struct share *share, pid_t pid, int pidfd, uint32_t slot);

/* Its pidfd says that it has ended: its slot is cleared, the record freed. */
void people_leave(struct process *process);

void people_forget(struct share *share);

#endif
