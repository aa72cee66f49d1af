#include "events.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "decision/arbitrate.h"

enum { EVENTS = 64 };

static int epoll = -1;
static struct source timer = {SOURCE_TIMER, -1, NULL};
static uint64_t armed = ARB_NEVER;
static struct epoll_event events[EVENTS];
static int handling; /* of the current round, events before it are done */
static int round_size;
static struct source *freed;

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool poll_start(void)
{
    epoll = epoll_create1(EPOLL_CLOEXEC);
    timer.file = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    return epoll >= 0 && timer.file >= 0 && poll_add(&timer);
}

bool poll_add(struct source *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};
    return !epoll_ctl(epoll, EPOLL_CTL_ADD, source->file, &event);
}

void poll_remove(struct source *source)
{
    epoll_ctl(epoll, EPOLL_CTL_DEL, source->file, NULL);
    for (int i = handling; i < round_size; i++)
        if (events[i].data.ptr == source)
            events[i].data.ptr = NULL;
}

/* `share` is not needed after removal: it chains what is to be freed. */
void poll_free(struct source *source)
{
    source->share = (struct share *)freed;
    freed = source;
}

static void free_all(void)
{
    while (freed) {
        struct source *next = (struct source *)freed->share;
        free(freed);
        freed = next;
    }
}

bool poll_once(void (*handle)(struct source *source, bool hung_up))
{
    round_size = epoll_wait(epoll, events, EVENTS, -1);
    if (round_size < 0)
        return errno == EINTR;
    for (handling = 0; handling < round_size; handling++)
        if (events[handling].data.ptr)
            handle(events[handling].data.ptr, events[handling].events & (EPOLLHUP | EPOLLERR));
    round_size = 0;
    free_all();
    return true;
}

void poll_wake_at(uint64_t at_ns)
{
    struct itimerspec when = {0};
    if (at_ns == armed)
        return;
    armed = at_ns;
    if (at_ns != ARB_NEVER) {
        when.it_value.tv_sec = (time_t)(at_ns / 1000000000u);
        when.it_value.tv_nsec = (long)(at_ns % 1000000000u);
    }
    timerfd_settime(timer.file, TFD_TIMER_ABSTIME, &when, NULL);
}

void poll_timer_seen(void)
{
    uint64_t times;
    if (read(timer.file, &times, sizeof times) > 0)
        armed = ARB_NEVER;
}
