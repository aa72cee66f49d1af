#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_WAIT_MS 100

static unsigned long lost;
static int is_unread; /* an answer was waited for in vain */

void report_start(void)
{
    int flags = fcntl(STDOUT_FILENO, F_GETFL);
    if (flags >= 0)
        fcntl(STDOUT_FILENO, F_SETFL, flags | O_NONBLOCK);
}

/* A line shorter than PIPE_BUF goes whole or not at all. */
static int put(const char *line, int size)
{
    ssize_t wrote;
    do
        wrote = write(STDOUT_FILENO, line, (size_t)size);
    while (wrote < 0 && errno == EINTR);
    return wrote == size;
}

static void tell_lost(void)
{
    char line[64];
    int size = snprintf(line, sizeof line, "lost\t%lu\n", lost);
    if (lost && put(line, size))
        lost = 0;
}

static void wait_for_room(const char *line)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (strncmp(line, "event\t", 6)) /* a pipe is ready again when it has room for any line, not for a short one alone */
        is_unread = poll(&out, 1, is_unread ? 0 : ANSWER_WAIT_MS) == 0;
}

void report(const char *format, ...)
{
    char line[1024];
    va_list values;
    va_start(values, format);
    int size = vsnprintf(line, sizeof line - 1, format, values);
    va_end(values);
    if (size < 0)
        return;
    size = size < (int)sizeof line - 1 ? size : (int)sizeof line - 2;
    line[size++] = '\n';
    wait_for_room(line);
    tell_lost();
    if (lost || !put(line, size))
        lost++;
}
