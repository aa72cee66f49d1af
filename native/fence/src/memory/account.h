/* Charges this process for a card's memory in the ledger. Knows no handle and calls no driver. */
#ifndef GPUPOOL_ACCOUNT_H
#define GPUPOOL_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

/* What an allocation of `bytes` takes of card `card`: the driver rounds large ones up to its granule and packs small ones
   together, so a process that holds small ones only may take up to one granule more than it is charged for. */
uint64_t account_size(int card, uint64_t bytes);

/* Reserves; false when it is over the limit. May wait, up to about a second, while others' reservations are undecided.
   reserve.h tries harder before it gives up. */
bool account_try(int card, uint64_t bytes);
/* For a process with a slot: clears the slots of dead processes, and returns how many; counts a refusal of this process. */
uint32_t account_clear_dead(void);
void account_count_refusal(int card);

void account_commit(int card, uint64_t bytes);
void account_cancel(int card, uint64_t bytes);

/* Memory that is there or gone already. */
void account_charge(int card, uint64_t bytes);
void account_release(int card, uint64_t bytes);

void account_import(int card, uint64_t bytes);
void account_unimport(int card, uint64_t bytes);

/* Pieces of other processes' memory that are open here: counted before the driver is asked. `change`: 1 or -1. */
void account_open_imports(int change);
void account_unmapped_imports(int change);
/* Before it is released: bytes that other processes may keep alive. */
void account_orphan(int card, uint64_t bytes);
void account_contexts(int card, int change);

/* The share's memory on a card as it is now, and what all its processes use of it; the dead are cleared first. */
uint64_t account_limit(int card);
uint64_t account_used(int card);

#endif
