#define _GNU_SOURCE
#include "watch.h"
#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static bool tenant_read(pid_t pid, uint64_t at, void *into, size_t size)
{
    struct iovec mine = {into, size}, theirs = {(void *)(uintptr_t)at, size};
    return process_vm_readv(pid, &mine, 1, &theirs, 1, 0) == (ssize_t)size;
}

static bool tenant_write(pid_t pid, uint64_t at, void *from, size_t size)
{
    struct iovec mine = {from, size}, theirs = {(void *)(uintptr_t)at, size};
    return process_vm_writev(pid, &mine, 1, &theirs, 1, 0) == (ssize_t)size;
}

static bool is_drivers(const struct watch *watch, pid_t pid, int descriptor)
{
    char link[64], path[256];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return false;
    path[length] = 0;
    return !strncmp(path, watch->files, strlen(watch->files));
}

/* The older layout in the newer one's words; false: neither. */
static bool read_alloc(pid_t pid, uint64_t at, size_t size, struct rm_alloc *into)
{
    struct rm_alloc_old old;
    memset(into, 0, sizeof *into);
    if (size == sizeof *into)
        return tenant_read(pid, at, into, size);
    if (size != sizeof old || !tenant_read(pid, at, &old, size))
        return false;
    *into = (struct rm_alloc){old.root, old.parent, old.object, old.class_id, old.params, 0, old.params_size, 0, 0, 0};
    return true;
}

static uint64_t memory_size(pid_t pid, const struct rm_alloc *asked)
{
    uint64_t bytes = 0;
    if (class_takes_card_memory(asked->class_id) && asked->params)
        tenant_read(pid, asked->params + MEMORY_PARAMS_SIZE_OFFSET, &bytes, sizeof bytes);
    return bytes;
}

static void note_alloc(struct watch *watch, const struct rm_alloc *asked, uint64_t bytes, int descriptor)
{
    struct object made = {asked->root, asked->parent, asked->object, asked->class_id, bytes};
    ledger_add(&watch->ledger, &made, descriptor);
}

/* Do a memory allocation ourselves. True when it was done, whatever came of it: `result` is then the tenant's answer. */
static bool emulate(struct watch *watch, const struct seccomp_notif *seen, struct rm_alloc *asked, uint64_t bytes, int *result)
{
    char params[MOST_PARAMS];
    const uint64_t theirs = asked->params;
    const uint32_t size = asked->params_size;
    if (!size || size > sizeof params || asked->rights || _IOC_SIZE(seen->data.args[1]) != sizeof *asked)
        return false;
    int descriptor = (int)syscall(SYS_pidfd_getfd, watch->pidfd, (int)seen->data.args[0], 0);
    if (descriptor < 0)
        return false;
    bool done = tenant_read(seen->pid, theirs, params, size);
    if (done) {
        asked->params = (uint64_t)(uintptr_t)params;
        *result = ioctl(descriptor, (unsigned long)seen->data.args[1], asked) ? -errno : 0;
        asked->params = theirs;
        bool told = tenant_write(seen->pid, theirs, params, size) &&
                    tenant_write(seen->pid, seen->data.args[2], asked, sizeof *asked);
        watch->ledger.emulated++;
        if (*result || asked->status || !told)
            watch->ledger.emulated_failed++;
        else
            note_alloc(watch, asked, bytes, (int)seen->data.args[0]);
    }
    close(descriptor);
    return done;
}

static void on_control(struct watch *watch, const struct seccomp_notif *seen)
{
    struct rm_control asked;
    if (_IOC_SIZE(seen->data.args[1]) != sizeof asked || !tenant_read(seen->pid, seen->data.args[2], &asked, sizeof asked))
        watch->ledger.not_understood++;
    else if (asked.command == CONTROL_GROUP_SCHEDULE)
        ledger_scheduled(&watch->ledger, asked.client, asked.object, asked.params_size);
}

static void on_free(struct watch *watch, const struct seccomp_notif *seen)
{
    struct rm_free asked;
    if (_IOC_SIZE(seen->data.args[1]) == sizeof asked && tenant_read(seen->pid, seen->data.args[2], &asked, sizeof asked))
        ledger_free(&watch->ledger, asked.root, asked.object);
    else
        watch->ledger.not_understood++;
}

static bool on_alloc(struct watch *watch, const struct seccomp_notif *seen, int *result)
{
    struct rm_alloc asked;
    if (!read_alloc(seen->pid, seen->data.args[2], _IOC_SIZE(seen->data.args[1]), &asked)) {
        watch->ledger.not_understood++;
        return false;
    }
    uint64_t bytes = memory_size(seen->pid, &asked);
    if (watch->mode == WATCH_EMULATE && bytes && emulate(watch, seen, &asked, bytes, result))
        return true;
    note_alloc(watch, &asked, bytes, (int)seen->data.args[0]); /* its status is not ours to see: taken as granted */
    return false;
}

/* True: the answer is `result`; false: the kernel is to do it as it was asked. */
static bool on_request(struct watch *watch, const struct seccomp_notif *seen, int *result)
{
    const unsigned number = seen->data.args[1] & 0xff;
    watch->ledger.notified++;
    if (!is_drivers(watch, (pid_t)seen->pid, (int)seen->data.args[0]))
        return false;
    watch->ledger.requests[number]++;
    if (number == RM_ALLOC)
        return on_alloc(watch, seen, result);
    if (number == RM_FREE)
        on_free(watch, seen);
    else if (number == RM_CONTROL)
        on_control(watch, seen);
    else if (number == RM_XFER)
        watch->ledger.wrapped++;
    return false;
}

static void *serve(void *argument)
{
    struct watch *watch = argument;
    struct pollfd ready = {watch->listener, POLLIN, 0};
    while (poll(&ready, 1, -1) > 0 && !(ready.revents & POLLHUP)) {
        struct seccomp_notif seen = {0};
        struct seccomp_notif_resp answer = {0};
        if (ioctl(watch->listener, SECCOMP_IOCTL_NOTIF_RECV, &seen))
            continue; /* its thread was interrupted or is gone */
        pthread_mutex_lock(&watch->lock);
        bool answered = on_request(watch, &seen, &answer.error);
        pthread_mutex_unlock(&watch->lock);
        answer.id = seen.id;
        answer.flags = answered ? 0 : SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        ioctl(watch->listener, SECCOMP_IOCTL_NOTIF_SEND, &answer); /* ENOENT: it has gone meanwhile */
    }
    return NULL;
}

static int receive(int channel)
{
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int listener;
    if (recvmsg(channel, &message, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&message))
        return -1;
    memcpy(&listener, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof listener);
    return listener;
}

int watch_begin(struct watch *watch, pid_t pid, int channel, enum watch_mode mode, const char *files)
{
    memset(watch, 0, sizeof *watch);
    watch->pid = pid, watch->mode = mode, watch->files = files;
    pthread_mutex_init(&watch->lock, NULL);
    watch->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    watch->listener = watch->pidfd < 0 ? -1 : receive(channel);
    if (watch->listener < 0)
        return -1;
    errno = pthread_create(&watch->thread, NULL, serve, watch);
    return errno ? -1 : 0;
}

void watch_end(struct watch *watch)
{
    pthread_join(watch->thread, NULL);
    close(watch->listener);
    close(watch->pidfd);
}
