/* One thread takes the jobs whose turn has come, in the engine's order, and runs the tenant's functions: as on a card they
   are never called from within the call that submitted them. A second thread, alive only while it is needed, looks at
   the memory that cuStreamWaitValue waits for, so that waiting there does not hold up other streams' functions. */
#include "jobs.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "devices/card.h"
#include "machine/machine.h"
#include "memory/memory.h"

#define POLL_NS 50000

static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct job *queued, *polled; /* submitted and not taken; waiting for a value */
static bool runner_started, poller_running;
static _Atomic unsigned outstanding;
static _Atomic uint64_t job_ids;
static const _Atomic int never_stop;
static __thread bool inside;

bool jobs_none(void)
{
    return outstanding == 0;
}

bool jobs_inside(void)
{
    return inside;
}

static struct job *unlink_job(struct job **list, uint64_t id)
{
    struct job **link = list;

    while (*link && (*link)->id != id)
        link = &(*link)->next;
    struct job *job = *link;
    if (job)
        *link = job->next;
    return job;
}

static void finish(struct job *job)
{
    sim_release(card_machine(), &job->ticket);
    atomic_fetch_sub(&outstanding, 1);
    free(job);
}

static bool reached(const struct job_value *value)
{
    uint64_t there = value->wide ? __atomic_load_n((uint64_t *)value->address, __ATOMIC_ACQUIRE)
                                 : __atomic_load_n((uint32_t *)value->address, __ATOMIC_ACQUIRE);
    int64_t ahead = value->wide ? (int64_t)(there - value->value) : (int32_t)(uint32_t)(there - value->value);
    uint64_t mask = value->wide ? UINT64_MAX : UINT32_MAX;

    switch (value->flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return ahead >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return there == (value->value & mask);
    case CU_STREAM_WAIT_VALUE_AND:
        return (there & value->value) != 0;
    default:
        return (~(there | value->value) & mask) != 0;
    }
}

/* Memory that has gone is waited for no longer, and not written. */
static bool value_there(const struct job_value *value)
{
    return range_check(value->address, value->wide ? 8 : 4, true, true) == CUDA_SUCCESS;
}

static bool is_over(const struct job_value *value)
{
    return !value_there(value) || reached(value);
}

bool value_reached(const struct job_value *value)
{
    driver_lock();
    bool over = is_over(value);
    driver_unlock();
    return over;
}

static void store(const struct job_value *value)
{
    if (value->wide)
        __atomic_store_n((uint64_t *)value->address, value->value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint32_t *)value->address, (uint32_t)value->value, __ATOMIC_RELEASE);
}

void value_write(const struct job_value *value)
{
    driver_lock();
    if (value_there(value))
        store(value);
    driver_unlock();
}

static struct job *take_reached(void)
{
    for (struct job **link = &polled; *link; link = &(*link)->next) {
        struct job *job = *link;
        if (is_over(&job->value)) {
            *link = job->next;
            return job;
        }
    }
    return NULL;
}

static void *poll_values(void *unused)
{
    static const struct timespec pause = {.tv_nsec = POLL_NS};

    (void)unused;
    for (;;) {
        driver_lock();
        pthread_mutex_lock(&jobs_lock);
        struct job *job = take_reached();
        bool last = !job && !polled;
        if (last)
            poller_running = false;
        pthread_mutex_unlock(&jobs_lock);
        driver_unlock();
        if (last)
            return NULL;
        if (job)
            finish(job);
        else
            clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    }
}

/* A thread of the driver takes no signal that is meant for the program. */
static bool start_thread(void *(*body)(void *))
{
    sigset_t all, before;
    pthread_t thread;
    pthread_attr_t detached;

    sigfillset(&all);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, &detached, body, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    return !failed;
}

static void poll_for(struct job *job)
{
    pthread_mutex_lock(&jobs_lock);
    job->next = polled;
    polled = job;
    if (!poller_running)
        poller_running = start_thread(poll_values);
    pthread_mutex_unlock(&jobs_lock);
}

static void inject_fault(const struct job *job)
{
    struct sim *machine = card_machine();
    struct sim_fault fault = {
        .card = card_index(job->target.device), .xid = 31, .error = CUDA_ERROR_ILLEGAL_ADDRESS,
        .pid = (uint32_t)(machine->self ? machine->self->owner >> 32 : 0), .kind = SIM_FAULT_XID,
    };

    sim_inject(machine, &fault); /* the contexts learn of it from the engine, at their next call */
}

static void run(struct job *job)
{
    switch (job->kind) {
    case JOB_FUNCTION:
        job->call.function(job->call.data);
        break;
    case JOB_CALLBACK:
        job->call.callback(job->call.stream, (CUresult)job->target.context->sticky, job->call.data);
        break;
    case JOB_TRANSFER:
        transfer_run(&job->transfer);
        break;
    case JOB_FILL:
        fill_run(&job->fill);
        break;
    case JOB_WRITE_VALUE:
        value_write(&job->value);
        break;
    case JOB_FAULT:
        inject_fault(job);
        break;
    case JOB_WAIT_VALUE:
        break;
    }
}

static void *run_jobs(void *unused)
{
    struct engine_ticket ticket;
    uint64_t id;

    (void)unused;
    inside = true;
    while (sim_wait_host(card_machine(), &never_stop, &id, &ticket) == 1) {
        pthread_mutex_lock(&jobs_lock);
        struct job *job = unlink_job(&queued, id);
        pthread_mutex_unlock(&jobs_lock);
        if (!job)
            continue;
        job->ticket = ticket;
        if (job->kind == JOB_WAIT_VALUE && !value_reached(&job->value)) {
            poll_for(job);
            continue;
        }
        run(job);
        finish(job);
    }
    return NULL;
}

static bool enqueue(struct job *job)
{
    pthread_mutex_lock(&jobs_lock);
    if (!runner_started)
        runner_started = start_thread(run_jobs);
    bool started = runner_started;
    if (started) {
        job->next = queued;
        queued = job;
        atomic_fetch_add(&outstanding, 1);
    }
    pthread_mutex_unlock(&jobs_lock);
    return started;
}

CUresult job_submit(const struct job *like, struct engine_ticket *ticket)
{
    struct job *job = malloc(sizeof *job);

    REQUIRE(job, CUDA_ERROR_OUT_OF_MEMORY);
    *job = *like;
    uint64_t id = job->id = atomic_fetch_add(&job_ids, 1) + 1;
    if (!enqueue(job)) {
        free(job);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct engine_work work = {.kind = ENGINE_HOST, .cookie = id, .event = ENGINE_NO_EVENT};
    CUresult submitted = submit(&like->target, &work, ticket);
    if (submitted == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&jobs_lock);
    job = unlink_job(&queued, id);
    if (job)
        atomic_fetch_sub(&outstanding, 1);
    pthread_mutex_unlock(&jobs_lock);
    free(job);
    return submitted;
}

static void drop_from(struct job **link, uint32_t engine_context)
{
    while (*link) {
        struct job *job = *link;
        if (job->target.engine != engine_context) {
            link = &job->next;
            continue;
        }
        *link = job->next;
        atomic_fetch_sub(&outstanding, 1);
        free(job);
    }
}

void jobs_drop(uint32_t engine_context)
{
    pthread_mutex_lock(&jobs_lock);
    drop_from(&queued, engine_context);
    drop_from(&polled, engine_context);
    pthread_mutex_unlock(&jobs_lock);
}
