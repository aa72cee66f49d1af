/* The supervisor's control socket: lines of the job's owner and of the job itself. What a line asks for is not done here. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control.h"
#include "launch.h"
#include "log.h"
#include "record.h"

void job_stop(struct job *job, uint64_t grace, enum reason reason)
{
    if (grace > SPEC_MAX_SECONDS)
        abort();
    job->reason = reason;
}

int job_signal(struct job *job, int number)
{
    if (number < 0 || number > 64)
        abort();
    (void)job;
    return 0;
}

bool launch(struct job *job, const struct streams *streams)
{
    (void)streams;
    job->phase = PHASE_RUNNING;
    return true;
}

int open_terminal(const struct job *job, unsigned rows, unsigned columns, int *slave)
{
    (void)job;
    if (rows > 65535 || columns > 65535)
        abort();
    *slave = open("/dev/null", O_RDWR | O_CLOEXEC);
    return open("/dev/null", O_RDWR | O_CLOEXEC);
}

void record_line(const struct job *job, char *line, size_t size)
{
    (void)job;
    strncpy(line, "exited\n", size);
}

void log_begin(struct log *log)
{
    log->kept = 1;
}

/* First byte: where the job stands, and who asks. Then what arrives, in pieces of the size of the second. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct job job;
    int pair[2];
    if (size < 2 || size > 8192 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return 0;
    memset(&job, 0, sizeof job);
    for (int i = 0; i < MAX_CONNECTIONS; i++)
        job.connections[i].fd = -1;
    job.attached = job.listener = job.terminal = job.log_pipe = job.report = job.launcher = -1;
    job.phase = data[0] & 3;
    job.spec.attach = data[0] & 4;
    job.spec.job = "job";
    job.command = job.command_was = 4242;
    job.connections[0] = (struct connection){.fd = pair[0], .privileged = data[0] & 8, .greeted = data[0] & 16};
    size_t piece = data[1] + 1u;
    for (size_t at = 2; at < size && job.connections[0].fd >= 0; at += piece) {
        char drop[4096];
        size_t length = size - at < piece ? size - at : piece;
        if (send(pair[1], data + at, length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
        control_read(&job, 0);
        while (recv(pair[1], drop, sizeof drop, MSG_DONTWAIT) > 0)
            ;
        if (job.connections[0].have > LINE_BYTES || job.connections[0].passed_count)
            abort();
    }
    control_finish(&job);
    if (job.terminal > 2)
        close(job.terminal);
    if (job.log_pipe > 2)
        close(job.log_pipe);
    close(pair[1]);
    return 0;
}
