/* The life of the driver in a process: cold, ready after cuInit, closed at exit, unusable in a forked child. */
#include "driver.h"

#include "devices/card.h"

_Atomic int driver_state = DRIVER_COLD;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t ids;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

void driver_lock(void)
{
    pthread_mutex_lock(&lock);
}

void driver_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

uint64_t driver_next_id(void)
{
    return atomic_fetch_add(&ids, 1) + 1;
}

CUresult driver_refusal(void)
{
    return driver_state == DRIVER_CLOSED ? CUDA_ERROR_DEINITIALIZED : CUDA_ERROR_NOT_INITIALIZED;
}

/* The card's channels are the parent's: a child that was forked after cuInit can do nothing with the driver. Its copy
   of the lock may be held by a thread that it has not, so nothing here or later takes it. */
static void in_child(void)
{
    if (driver_state != DRIVER_READY)
        return;
    driver_state = DRIVER_FORKED;
    card_forget();
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

CUresult driver_start(void)
{
    settings_read();
    TRY(card_open());
    pthread_once(&fork_once, watch_forks);
    driver_state = DRIVER_READY;
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
    log_start();
    REQUIRE(!flags, CUDA_ERROR_INVALID_VALUE);
    if (driver_state == DRIVER_READY)
        return CUDA_SUCCESS;
    if (driver_state != DRIVER_COLD)
        return driver_refusal();
    driver_lock();
    CUresult started = driver_state == DRIVER_READY ? CUDA_SUCCESS : driver_start();
    driver_unlock();
    return started;
}

CUresult cuDriverGetVersion(int *version)
{
    long wished = settings_number("GPUPOOL_SIMGPU_DRIVER_VERSION", 0);

    REQUIRE(version, CUDA_ERROR_INVALID_VALUE);
    if (!wished && driver_state != DRIVER_FORKED) {
        driver_lock();
        wished = card_driver_version();
        driver_unlock();
    }
    *version = wished ? (int)wished : DRIVER_VERSION_DEFAULT;
    return CUDA_SUCCESS;
}

/* At exit the memory is given back at once, not when another process notices. A thread that is in a call may still be using
   the slot: then it stays until the process is gone and another one clears it. */
__attribute__((destructor)) static void at_exit(void)
{
    int ready = DRIVER_READY;

    if (!atomic_compare_exchange_strong(&driver_state, &ready, DRIVER_CLOSED))
        return;
    if (pthread_mutex_trylock(&lock) == 0) {
        card_close();
        pthread_mutex_unlock(&lock);
    }
}
