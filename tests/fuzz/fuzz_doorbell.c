/* The arbiter's doorbell: packets of a job's processes, about a region that the job writes too. */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bus_error.h"
#include "doorbell.h"
#include "events.h"
#include "process_table.h"
#include "report.h"

static struct share *share;

static void prepare(void)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, STDOUT_FILENO); /* events */
    report_start();
    install_bus_error_guard();
    poll_start();
    share = calloc(1, sizeof *share);
    share->usage = calloc(1, sizeof *share->usage);
    share->usage_file = share->doorbell.file = -1;
    snprintf(share->name, sizeof share->name, "fuzz");
    share->devices = 2;
}

static struct peer *connected(int file)
{
    struct peer *peer = calloc(1, sizeof *peer);
    peer->source = (struct source){SOURCE_PEER, file, share};
    peer->pid = getpid();
    poll_add(&peer->source);
    peer->next = share->peers;
    share->peers = peer;
    share->peers_count++;
    return peer;
}

/* Pieces of 18 bytes: 0 to 2 say of which slot this process is the owner, then a packet, cut to the size of byte 1. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int pair[2];
    if (!share)
        prepare();
    if (size > 18 * 24 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
        return 0;
    connected(pair[0]);
    for (; size >= 18 && share->peers; data += 18, size -= 18) {
        uint64_t owner = (uint64_t)getpid() << 32 | 7;
        if (data[0] & 1)
            share->usage->slot[data[0] >> 1].owner = data[1] & 128 ? 0 : owner;
        send(pair[1], data + 2, data[1] & 31 ? 16 : data[1] >> 3 & 15, MSG_NOSIGNAL | MSG_DONTWAIT);
        doorbell_read(share->peers);
        for (const struct process *p = share->processes; p; p = p->next)
            if (p->pid != getpid() || p->slot >= FENCE_MAX_SLOTS)
                abort();
    }
    close(pair[1]);
    if (share->peers)
        doorbell_read(share->peers);
    if (share->peers || share->peers_count)
        abort(); /* a connection that is closed is forgotten */
    forget_processes(share);
    for (size_t i = 0; i < 128; i++) /* all that byte 0 can name */
        memset(&share->usage->slot[i], 0, offsetof(struct fence_slot, device));
    return 0;
}
