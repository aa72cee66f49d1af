/* The lock of one stream's entry: nearly always free, and taken at every launch. Zero is free, so that fork frees it.

   One atomic exchange to take it, a plain store to give it back, where a mutex takes two exchanges and two calls. The store may become
   visible after the look at `sleepers`: then a sleeper is not woken, and looks again by itself after 200 us. */
#ifndef GPUPOOL_STREAM_LOCK_H
#define GPUPOOL_STREAM_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct stream_lock {
    _Atomic uint32_t taken, sleepers;
};

void stream_lock_wait(struct stream_lock *lock);
void stream_lock_wake(struct stream_lock *lock);

static inline bool stream_lock_try(struct stream_lock *lock)
{
    uint32_t is_free = 0;
    return atomic_compare_exchange_strong_explicit(&lock->taken, &is_free, 1, memory_order_acquire, memory_order_relaxed);
}

static inline void stream_lock_take(struct stream_lock *lock)
{
    if (__builtin_expect(!stream_lock_try(lock), 0))
        stream_lock_wait(lock);
}

static inline void stream_lock_leave(struct stream_lock *lock)
{
    atomic_store_explicit(&lock->taken, 0, memory_order_release);
    if (__builtin_expect(atomic_load_explicit(&lock->sleepers, memory_order_relaxed) != 0, 0))
        stream_lock_wake(lock);
}

#endif
