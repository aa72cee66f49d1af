/* The processes of an allocation: who they are by the kernel's word, and when they have ended. */
#ifndef GPUPOOL_ARBITER_PEOPLE_H
#define GPUPOOL_ARBITER_PEOPLE_H

#include "share.h"

/* Takes up the slots that an earlier arbiter left: the dead are cleared, the living watched. */
void people_adopt(struct share *share);

/* `pid` says that it has `slot`: watched from now on, its pid written into the slot. False: no such slot, or it is gone. */
bool people_enter(struct share *share, pid_t pid, int pidfd, uint32_t slot);

/* Its pidfd says that it has ended: its slot is cleared, the record freed. */
void people_leave(struct process *process);

void people_forget(struct share *share);

#endif
