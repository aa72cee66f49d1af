#define _GNU_SOURCE
#include "signals.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

static bool is_ignored(int number)
{
    struct sigaction action;

    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

void signals_begin(struct signals *signals, const int *numbers, size_t count)
{
    sigset_t taken;

    sigemptyset(&taken);
    for (size_t i = 0; i < count; i++)
        if (!is_ignored(numbers[i]))
            sigaddset(&taken, numbers[i]);
    /* Without a descriptor for them they keep their ways: the job then ends with its lease. */
    sigprocmask(SIG_BLOCK, &taken, &signals->before);
    signals->fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->fd < 0)
        sigprocmask(SIG_SETMASK, &signals->before, NULL);
}

void signals_begin_ending(struct signals *signals, bool with_hangup)
{
    static const int ENDING[] = {SIGINT, SIGTERM, SIGHUP};

    signals_begin(signals, ENDING, with_hangup ? 3 : 1);
}

int signals_take(struct signals *signals)
{
    struct signalfd_siginfo information;

    if (signals->fd < 0 || read(signals->fd, &information, sizeof information) != sizeof information)
        return 0;
    return (int)information.ssi_signo;
}

void signals_end(struct signals *signals)
{
    while (signals_take(signals))
        continue;
    if (signals->fd >= 0)
        close(signals->fd);
    sigprocmask(SIG_SETMASK, &signals->before, NULL);
}

int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

enum readiness signals_wait(struct signals *signals, int fd, short events, int64_t milliseconds)
{
    struct pollfd watched[] = {{fd, events, 0}, {signals->fd, POLLIN, 0}};
    int64_t deadline = now_ms() + milliseconds;

    for (;;) {
        int64_t left = milliseconds < 0 ? -1 : deadline - now_ms();
        int found = poll(watched, 2, left < 0 ? (milliseconds < 0 ? -1 : 0) : left > INT_MAX ? INT_MAX : (int)left);
        if (found > 0)
            return watched[1].revents ? SIGNALLED : READY;
        if (found == 0)
            return TIMED_OUT;
        if (errno != EINTR)
            return READY; /* whatever is wrong with the descriptor, its reader will be told */
    }
}
