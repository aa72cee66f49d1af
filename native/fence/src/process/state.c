#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "duplicate_driver.h"
#include "ledger.h"
#include "suspension/share_flags.h"

struct fence_state fence_state;
static pthread_once_t started = PTHREAD_ONCE_INIT;

uint64_t fence_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void refuse_all(const char *why)
{
    char line[sizeof fence_state.why + 64];
    snprintf(line, sizeof line, "the fence refuses CUDA in this process: %s", why);
    print_message(line);
}

/* Kernels before 4.14 know no MADV_WIPEONFORK: a child there keeps its parent's slot number, so it is refused rather than
   miscounted. */
void *fence_process_memory(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (!madvise(at, bytes, MADV_WIPEONFORK))
        return at;
    munmap(at, bytes);
    return NULL;
}

static void publish(struct fence_process *own)
{
    atomic_store(&share_flags, &fence_state.region.limits->flags);
    fence_state.process = own;
}

static void start(void)
{
    size_t size = sizeof fence_state.why;
    struct fence_process *own = fence_process_memory(sizeof *own);
    fence_state.foreign_driver = has_duplicate_driver();
    if (!own)
        snprintf(fence_state.why, size, "no memory that fork empties (Linux 4.14 or newer is needed)");
    else if (region_map(&fence_state.region, standin_base(), getenv("GPUPOOL_SHARE"), fence_state.why, size))
        publish(own);
    else
        munmap(own, sizeof *own);
    if (!fence_state.process)
        refuse_all(fence_state.why);
}

static int take_slot(const struct process_id *self)
{
    struct fence_usage *usage = fence_state.region.usage;
    uint32_t slots = fence_state.region.limits->slots;
    int slot = ledger_take_slot(usage, slots, self->owner, self->pid_namespace, self->image);
    if (slot < 0 && ledger_clear_dead(usage, self->owner, is_dead_process, (void *)self))
        slot = ledger_take_slot(usage, slots, self->owner, self->pid_namespace, self->image);
    if (slot >= 0)
        atomic_store(&usage->slot[slot].flags, fence_state.foreign_driver ? FENCE_SLOT_FOREIGN_DRIVER : 0);
    return slot;
}

static void say_full(void)
{
    static atomic_bool was_printed;
    char why[96];
    if (atomic_exchange(&was_printed, true))
        return;
    snprintf(why, sizeof why, "all %u processes that the share admits are there", fence_state.region.limits->slots);
    refuse_all(why);
}

static bool enter_slot(struct fence_process *process)
{
    process->self = read_process_id();
    int slot = take_slot(&process->self);
    /* What this process had before an exec is gone from the card; a slot of another copy of the fence in this very image is not.
       Afterwards, so that the new slot is not the old one: a process that judged the old one would take the new one for it. */
    ledger_clear_dead(fence_state.region.usage, process->self.owner, is_own_past, &process->self);
    if (slot < 0) {
        say_full();
        return false;
    }
    atomic_store(&process->slot, (uint32_t)slot);
    for (uint32_t i = 0; i < FENCE_MAX_DEVICES; i++)
        ledger_charge(fence_state.region.usage, (uint32_t)slot, i, atomic_load(&process->held[i]));
    return true;
}

struct fence_process *fence_register(void)
{
    pthread_once(&started, start);
    struct fence_process *process = fence_state.process;
    if (!process)
        return NULL;
    pthread_mutex_lock(&process->lock);
    bool fresh = !atomic_load(&process->owner) && enter_slot(process);
    if (fresh)
        atomic_store_explicit(&process->owner, process->self.owner, memory_order_release);
    bool registered = atomic_load(&process->owner) != 0;
    pthread_mutex_unlock(&process->lock);
    if (fresh) {
        fence_ring(FENCE_BELL_HELLO, 0);
        share_pass(); /* a process that begins while the share is closed would take memory that is lent to others */
    }
    return registered ? process : NULL;
}

static bool slot_is_lost(struct fence_process *process)
{
    const struct fence_slot *slot = &fence_state.region.usage->slot[atomic_load(&process->slot)];
    return atomic_load(&slot->owner) != atomic_load(&process->owner);
}

uint32_t fence_slot(struct fence_process *process)
{
    if (slot_is_lost(process)) {
        pthread_mutex_lock(&process->lock);
        bool retaken = slot_is_lost(process) && enter_slot(process);
        pthread_mutex_unlock(&process->lock);
        if (retaken)
            fence_ring(FENCE_BELL_HELLO, 0);
    }
    return atomic_load(&process->slot);
}

bool fence_ring(enum fence_bell_kind kind, uint32_t device)
{
    struct fence_process *process = fence_state.process;
    pthread_mutex_lock(&process->bell_lock);
    bool sent = doorbell_send(&process->bell, fence_state.region.base, kind, atomic_load(&process->slot), device, fence_now_ns());
    pthread_mutex_unlock(&process->bell_lock);
    return sent;
}
