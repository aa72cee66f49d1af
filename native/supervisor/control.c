#define _GNU_SOURCE
#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/small_file.h"
#include "launch.h"
#include "record.h"

#define MAX_SENT 2 /* descriptors with one line: a terminal, and the log's pipe */

int control_listen(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "sock"};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    unlink("sock");
    /* Every user may connect; SO_PEERCRED decides what happens next. */
    mode_t before = umask(0111);
    int bound = bind(fd, (struct sockaddr *)&address, sizeof address);
    umask(before);
    if (bound == 0 && listen(fd, 64) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static void forget_descriptors(struct connection *connection)
{
    while (connection->passed_count)
        close(connection->passed[--connection->passed_count]);
}

static void hang_up(struct job *job, int index)
{
    struct connection *connection = &job->connections[index];

    forget_descriptors(connection);
    close(connection->fd);
    connection->fd = -1;
    if (job->attached == index)
        job->attached = -1;
}

/* A reader too slow for a few short lines is no reader: it is hung up on, and never waited for. */
static bool send_descriptors(struct job *job, int index, const char *line, const int *descriptors, size_t count)
{
    struct connection *connection = &job->connections[index];
    struct iovec text = {(void *)line, strlen(line)};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(MAX_SENT * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1};

    if (connection->fd < 0)
        return false;
    if (count) {
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        control.header = (struct cmsghdr){CMSG_LEN(count * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), descriptors, count * sizeof(int));
    }
    if (sendmsg(connection->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)text.iov_len)
        return true;
    hang_up(job, index);
    return false;
}

static bool send_line(struct job *job, int index, const char *line)
{
    return send_descriptors(job, index, line, NULL, 0);
}

__attribute__((format(printf, 3, 4))) static void refuse(struct job *job, int index, const char *format, ...)
{
    char text[256], line[300];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    make_one_line(text);
    snprintf(line, sizeof line, "error %s\n", text);
    send_line(job, index, line);
}

static bool may_speak(const struct job *job, uid_t uid, bool *privileged)
{
    *privileged = uid == 0 || uid == job->spec.owner_uid || uid == geteuid();
    return *privileged || uid == job->spec.uid;
}

static int free_place(const struct job *job, bool privileged)
{
    int places = 0, last = -1;

    for (int i = 0; i < MAX_CONNECTIONS; i++)
        if (job->connections[i].fd < 0) {
            places++;
            last = i;
        }
    return privileged || places > RESERVED_CONNECTIONS ? last : -1;
}

static void turn_away(int fd, const char *line)
{
    /* A courtesy: a client that is turned away sees the closed connection in any case. */
    if (send(fd, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        errno = 0;
    close(fd);
}

void control_accept(struct job *job)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    bool privileged;
    int fd = accept4(job->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || !may_speak(job, peer.uid, &privileged)) {
        turn_away(fd, "error forbidden this job belongs to somebody else\n");
        return;
    }
    int place = free_place(job, privileged);
    if (place < 0) {
        turn_away(fd, "error busy too many connections\n");
        return;
    }
    memset(&job->connections[place], 0, sizeof job->connections[place]);
    job->connections[place].fd = fd;
    job->connections[place].privileged = privileged;
}

static const char *phase_name(const struct job *job)
{
    static const char *const NAMES[] = {"waiting", "starting", "running", "ending"};

    return NAMES[job->phase];
}

static void answer_status(struct job *job, int index)
{
    char line[LINE_BYTES];

    snprintf(line, sizeof line,
             "status state=%s stdio=%s attached=%s pid=%d start_ticks=%" PRIu64 " supervisor_pid=%d started_ns=%" PRIu64
             " started_boot_ns=%" PRIu64 " log_bytes=%" PRIu64 " lost_bytes=%" PRIu64 " share=%s leftover=%zu%s%s\n",
             phase_name(job), job->spec.attach ? "attach" : "log", job->attached >= 0 ? "yes" : "no", job->command_was,
             job->command_ticks, getpid(), job->started_wall_ns, job->started_boot_ns, job->log.written, job->log.lost,
             !job->spec.share_directory ? "none" : job->share_mounted ? "mounted" : "environment", job->leftover,
             job->share_refused[0] ? " message=" : "", job->share_refused);
    send_line(job, index, line);
}

static void answer_hello(struct job *job, int index, char **words, int count)
{
    uint64_t low, high;
    char line[32];

    if (count != 3 || !parse_number(words[1], 1u << 30, &low) || !parse_number(words[2], 1u << 30, &high) || low > high) {
        refuse(job, index, "syntax hello MIN MAX");
        hang_up(job, index);
        return;
    }
    if (high < PROTOCOL_MIN || low > PROTOCOL_MAX) {
        refuse(job, index, "version this supervisor speaks %d to %d", PROTOCOL_MIN, PROTOCOL_MAX);
        hang_up(job, index);
        return;
    }
    job->connections[index].greeted = true;
    snprintf(line, sizeof line, "hello %d\n", high < PROTOCOL_MAX ? (int)high : PROTOCOL_MAX);
    send_line(job, index, line);
}

static void answer_signal(struct job *job, int index, char **words, int count)
{
    uint64_t number;

    if (count != 2 || !parse_number(words[1], (uint64_t)SIGRTMAX, &number) || number == 0)
        refuse(job, index, "syntax signal NUMBER");
    else if (job_signal(job, (int)number) < 0)
        refuse(job, index, "not-running the command is not running");
    else
        send_line(job, index, "ok\n");
}

static void answer_stop(struct job *job, int index, char **words, int count)
{
    uint64_t grace;

    if (count != 2 || !parse_number(words[1], SPEC_MAX_SECONDS, &grace)) {
        refuse(job, index, "syntax stop GRACE_SECONDS");
        return;
    }
    /* An attached client is the job's own user at a terminal. */
    job_stop(job, grace, index == job->attached ? REASON_INTERRUPTED : REASON_STOPPED);
    send_line(job, index, "ok\n");
}

static bool read_size(char **words, uint64_t *rows, uint64_t *columns)
{
    return parse_number(words[0], 65535, rows) && parse_number(words[1], 65535, columns);
}

static void answer_resize(struct job *job, int index, char **words, int count)
{
    uint64_t rows, columns;

    if (count != 3 || !read_size(words + 1, &rows, &columns)) {
        refuse(job, index, "syntax resize ROWS COLUMNS");
        return;
    }
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    if (job->terminal < 0 || ioctl(job->terminal, TIOCSWINSZ, &size) < 0)
        refuse(job, index, "no-terminal this job has no terminal");
    else
        send_line(job, index, "ok\n");
}

static void attach_descriptors(struct job *job, int index)
{
    struct connection *connection = &job->connections[index];

    if (connection->passed_count != 3) {
        refuse(job, index, "descriptors 3 are needed, %u came", connection->passed_count);
        return;
    }
    if (job->phase != PHASE_WAITING) {
        refuse(job, index, "attached this job has its descriptors");
        return;
    }
    struct streams streams = {connection->passed[0], connection->passed[1], connection->passed[2], false};
    job->attached = index;
    launch(job, &streams);
    forget_descriptors(connection);
    send_line(job, index, "attached\n");
}

/* What the client writes into the pipe is the log; -1: there is none, and the job runs without. */
static int open_log_pipe(struct job *job)
{
    int pipe[2];

    if (pipe2(pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return -1;
    if (job->log_pipe >= 0)
        close(job->log_pipe);
    job->log_pipe = pipe[0];
    log_begin(&job->log);
    return pipe[1];
}

static void hand_terminal(struct job *job, int index, bool with_log)
{
    int descriptors[MAX_SENT] = {job->terminal, with_log ? open_log_pipe(job) : -1};
    bool writes_log = descriptors[1] >= 0;

    job->attached = index;
    job->connections[index].writes_log = writes_log;
    send_descriptors(job, index, "attached\n", descriptors, writes_log ? 2 : 1);
    if (writes_log)
        close(descriptors[1]);
}

static bool start_on_terminal(struct job *job, int index, unsigned rows, unsigned columns)
{
    struct connection *connection = &job->connections[index];
    int slave;

    job->terminal = open_terminal(job, rows, columns, &slave);
    if (job->terminal < 0) {
        refuse(job, index, "no-terminal a terminal could not be made: %s", strerror(errno));
        return false;
    }
    /* Errors may go elsewhere: a user that types `2>file` means it. */
    struct streams streams = {slave, slave, connection->passed_count ? connection->passed[0] : slave, true};
    launch(job, &streams);
    close(slave);
    return true;
}

static void attach_terminal(struct job *job, int index, unsigned rows, unsigned columns, bool with_log)
{
    struct connection *connection = &job->connections[index];
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};

    if (connection->passed_count > 1)
        refuse(job, index, "descriptors 1 at most, for errors; %u came", connection->passed_count);
    else if (job->phase != PHASE_WAITING && job->terminal < 0)
        refuse(job, index, "no-terminal this job has no terminal");
    else if (job->attached >= 0)
        refuse(job, index, "attached another client has this job's terminal");
    else if (job->phase != PHASE_WAITING || start_on_terminal(job, index, rows, columns)) {
        ioctl(job->terminal, TIOCSWINSZ, &size);
        hand_terminal(job, index, with_log);
    }
    forget_descriptors(connection);
}

static void answer_attach(struct job *job, int index, char **words, int count)
{
    uint64_t rows, columns;
    bool with_log = count == 5 && strcmp(words[4], "log") == 0;

    if (!job->spec.attach)
        refuse(job, index, "log this job writes a log");
    else if (count == 2 && strcmp(words[1], "fds") == 0)
        attach_descriptors(job, index);
    else if ((count == 4 || with_log) && strcmp(words[1], "pty") == 0 && read_size(words + 2, &rows, &columns))
        attach_terminal(job, index, (unsigned)rows, (unsigned)columns, with_log);
    else
        refuse(job, index, "syntax attach fds, or attach pty ROWS COLUMNS [log]");
}

static void answer_wait(struct job *job, int index)
{
    job->connections[index].waiting = true;
    send_line(job, index, "ok\n");
}

static void answer(struct job *job, int index, char *line)
{
    char *words[5], *rest = line;
    int count = 0;

    for (char *word; count < 5 && (word = strtok_r(rest, " ", &rest));)
        words[count++] = word;
    if (count == 0)
        refuse(job, index, "syntax an empty line");
    else if (strcmp(words[0], "hello") == 0)
        answer_hello(job, index, words, count);
    else if (!job->connections[index].greeted) {
        refuse(job, index, "syntax say hello first");
        hang_up(job, index);
    } else if (strcmp(words[0], "status") == 0 && count == 1)
        answer_status(job, index);
    else if (strcmp(words[0], "wait") == 0 && count == 1)
        answer_wait(job, index);
    else if (strcmp(words[0], "signal") == 0)
        answer_signal(job, index, words, count);
    else if (strcmp(words[0], "stop") == 0)
        answer_stop(job, index, words, count);
    else if (strcmp(words[0], "attach") == 0)
        answer_attach(job, index, words, count);
    else if (strcmp(words[0], "resize") == 0)
        answer_resize(job, index, words, count);
    else {
        refuse(job, index, "unknown-command %.40s", words[0]);
        hang_up(job, index);
    }
}

/* Keeps up to three; more, or a list cut short by the kernel, ends the connection. */
static bool take_descriptors(struct connection *connection, struct msghdr *message)
{
    bool fits = !(message->msg_flags & MSG_CTRUNC);

    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
            if (connection->passed_count < 3)
                connection->passed[connection->passed_count++] = fd;
            else {
                close(fd);
                fits = false;
            }
        }
    }
    return fits;
}

static ssize_t receive(struct connection *connection)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(3 * sizeof(int))];
    } control;
    struct iovec text = {connection->line + connection->have, LINE_BYTES - connection->have};
    struct msghdr message = {
        .msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(connection->fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

    if (got > 0 && !take_descriptors(connection, &message))
        return 0;
    return got;
}

/* Every whole line is answered; descriptors that came with a line that has no use for them are closed. */
static void answer_lines(struct job *job, int index)
{
    struct connection *connection = &job->connections[index];
    char *start = connection->line, *end;

    while (connection->fd >= 0 && (end = memchr(start, '\n', connection->have - (size_t)(start - connection->line)))) {
        *end = '\0';
        if (memchr(start, '\0', (size_t)(end - start))) {
            hang_up(job, index);
            return;
        }
        answer(job, index, start);
        forget_descriptors(connection);
        start = end + 1;
    }
    connection->have -= (size_t)(start - connection->line);
    memmove(connection->line, start, connection->have);
}

void control_read(struct job *job, int index)
{
    struct connection *connection = &job->connections[index];
    ssize_t got = receive(connection);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        hang_up(job, index);
        return;
    }
    connection->have += (size_t)got;
    answer_lines(job, index);
    if (connection->fd >= 0 && connection->have == LINE_BYTES) {
        refuse(job, index, "syntax a line longer than %d bytes", LINE_BYTES);
        hang_up(job, index);
    }
}

bool control_tell_ending(struct job *job)
{
    return job->attached >= 0 && job->connections[job->attached].writes_log && send_line(job, job->attached, "ending\n");
}

void control_finish(struct job *job)
{
    char line[LINE_BYTES];

    record_line(job, line, sizeof line);
    for (int i = 0; i < MAX_CONNECTIONS; i++) {
        if (job->connections[i].fd < 0)
            continue;
        if (job->connections[i].waiting)
            send_line(job, i, line);
        if (job->connections[i].fd >= 0)
            hang_up(job, i);
    }
}
