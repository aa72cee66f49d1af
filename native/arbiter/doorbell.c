#include "doorbell.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "credentials.h"
#include "events.h"
#include "gpupool/doorbell.h"
#include "process_table.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

enum { SPARE_PEERS = 64, BACKLOG = 128, PACKETS_AT_ONCE = 64 };

/* Owner and mode of the usage region: only a user that may write the region may ring (connect(2) asks for write permission).
   Listens last, so that no connection is taken before. */
static bool open_to_the_job(int file, int directory, const struct share *s)
{
    return !fchownat(directory, "doorbell", s->region_uid, s->region_gid, AT_SYMLINK_NOFOLLOW) &&
           !fchmodat(directory, "doorbell", s->region_mode & 0666, 0) && !listen(file, BACKLOG);
}

/* Through a descriptor of the directory: sun_path is short and state directories may be deep. */
static bool bind_in(int file, int directory, const struct share *s)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/doorbell", directory);
    if (unlinkat(directory, "doorbell", 0) && errno != ENOENT)
        return false;
    return !bind(file, (struct sockaddr *)&at, sizeof at) && open_to_the_job(file, directory, s);
}

bool doorbell_listen(struct share *s, const char *usage_directory, char *why, size_t size)
{
    int directory = open(usage_directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int file = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool bound = directory >= 0 && file >= 0 && bind_in(file, directory, s);
    if (!bound)
        snprintf(why, size, "doorbell: %s", strerror(errno));
    if (directory >= 0)
        close(directory);
    s->doorbell = (struct source){SOURCE_DOORBELL, file, s};
    if (bound && poll_add(&s->doorbell))
        return true;
    if (bound)
        snprintf(why, size, "doorbell: %s", strerror(errno));
    return false;
}

static void hang_up(struct peer *peer)
{
    struct share *s = peer->source.share;
    for (struct peer **at = &s->peers; *at; at = &(*at)->next)
        if (*at == peer) {
            *at = peer->next;
            break;
        }
    s->peers_count--;
    poll_remove(&peer->source);
    close(peer->source.file);
    poll_free(&peer->source);
}

void doorbell_close(struct share *s)
{
    while (s->peers)
        hang_up(s->peers);
    if (s->doorbell.file < 0)
        return;
    poll_remove(&s->doorbell);
    close(s->doorbell.file);
}

static bool take(struct share *s, int file)
{
    struct ucred who = {0};
    socklen_t size = sizeof who;
    struct peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return false;
    peer->source = (struct source){SOURCE_PEER, file, s};
    bool known = !getsockopt(file, SOL_SOCKET, SO_PEERCRED, &who, &size) && who.pid > 0;
    if (known && !may_ring(who.uid, s->region_uid, s->region_mode)) {
        share_report_event(s, "stranger", who.pid);
        known = false;
    }
    if (!known || !poll_add(&peer->source)) {
        free(peer);
        return false;
    }
    peer->pid = who.pid;
    peer->next = s->peers;
    s->peers = peer;
    s->peers_count++;
    return true;
}

void doorbell_accept(struct share *s)
{
    int file;
    while ((file = accept4(s->doorbell.file, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
        if (s->peers_count >= FENCE_MAX_SLOTS + SPARE_PEERS || !take(s, file))
            close(file);
}

/* A pidfd of the process at the other end, not of one that has its pid by now. Kernels before 6.5 know only the pid. */
static int pidfd_of(const struct peer *peer)
{
    int pidfd = -1;
    socklen_t size = sizeof pidfd;
    if (!getsockopt(peer->source.file, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size))
        return pidfd;
    return (int)syscall(SYS_pidfd_open, peer->pid, 0);
}

static bool greet(struct peer *peer, uint32_t slot)
{
    int pidfd = pidfd_of(peer);
    if (pidfd < 0)
        return errno == ESRCH; /* gone already; the next owner of its slot clears it */
    enum process_answer answer = enter_process(peer->source.share, peer->pid, pidfd, slot);
    if (answer != PROCESS_ENTERED)
        close(pidfd);
    if (answer == PROCESS_STRANGER)
        share_report_event(peer->source.share, "stranger", peer->pid);
    if (answer != PROCESS_ENTERED)
        return false;
    peer->greeted = true;
    peer->slot = slot;
    return true;
}

static bool heed(struct peer *peer, const struct fence_bell *bell)
{
    struct share *s = peer->source.share;
    if (bell->layout != FENCE_LAYOUT || bell->slot >= FENCE_MAX_SLOTS || bell->device >= FENCE_MAX_DEVICES)
        return false;
    if (bell->kind == FENCE_BELL_HELLO)
        return greet(peer, bell->slot);
    if (bell->kind < FENCE_BELL_RING || bell->kind > FENCE_BELL_WAKE || bell->device >= s->devices)
        return false;
    if (!peer->greeted || peer->slot != bell->slot)
        if (!greet(peer, bell->slot))
            return false;
    if (bell->kind == FENCE_BELL_WAKE)
        share_report_wake(s, peer->pid);
    if (bell->kind == FENCE_BELL_RING)
        s->seat[bell->device].member.deaf = false;
    return true;
}

bool doorbell_read(struct peer *peer)
{
    bool any = false;
    for (int i = 0; i < PACKETS_AT_ONCE; i++) {
        struct fence_bell bell;
        ssize_t size = recv(peer->source.file, &bell, sizeof bell, MSG_DONTWAIT | MSG_TRUNC);
        if (size < 0 && (errno == EAGAIN || errno == EINTR))
            return any;
        bool over = size <= 0;
        if (over || size != sizeof bell || !heed(peer, &bell)) {
            if (!over)
                share_report_event(peer->source.share, "broken-peer", peer->pid);
            hang_up(peer);
            return true;
        }
        any = true;
    }
    return any;
}
