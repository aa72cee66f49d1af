#include "doorbell.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "gpupool/region.h"

/* Programs that close and open count on getting the lowest numbers. */
#define HIGH_DESCRIPTOR 500

static bool is_ours(const struct doorbell *bell)
{
    struct stat found;
    return bell->file && !fstat(bell->file - 1, &found) && S_ISSOCK(found.st_mode) && found.st_dev == bell->device &&
           found.st_ino == bell->inode;
}

void doorbell_drop(struct doorbell *bell)
{
    if (is_ours(bell))
        close(bell->file - 1);
    bell->file = 0;
}

/* A path too long for sun_path goes through a descriptor of its directory. */
static bool address_of(const char *base, struct sockaddr_un *to, int *directory)
{
    char path[640];
    to->sun_family = AF_UNIX;
    *directory = -1;
    if (snprintf(to->sun_path, sizeof to->sun_path, "%s/%s", base, FENCE_DOORBELL_FILE) < (int)sizeof to->sun_path)
        return true;
    snprintf(path, sizeof path, "%s/%s", base, FENCE_DOORBELL_FILE);
    char *name = strrchr(path, '/');
    *name++ = 0;
    *directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    snprintf(to->sun_path, sizeof to->sun_path, "/proc/self/fd/%d/%s", *directory, name);
    return *directory >= 0;
}

static bool reach(int file, const char *base)
{
    struct sockaddr_un to = {0};
    int directory;
    bool reached = address_of(base, &to, &directory) && !connect(file, (struct sockaddr *)&to, sizeof to);
    if (directory >= 0)
        close(directory);
    return reached;
}

static bool send_bell(const struct doorbell *bell, enum fence_bell_kind kind, uint32_t slot, uint32_t device)
{
    struct fence_bell packet = {(uint16_t)kind, FENCE_LAYOUT, slot, device, 0};
    return send(bell->file - 1, &packet, sizeof packet, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof packet;
}

static bool connect_bell(struct doorbell *bell, const char *base)
{
    struct stat found;
    int file = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (file < 0)
        return false;
    int high = fcntl(file, F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR);
    if (high >= 0) {
        close(file);
        file = high;
    }
    if (!reach(file, base) || fstat(file, &found)) {
        close(file);
        return false;
    }
    bell->device = found.st_dev;
    bell->inode = found.st_ino;
    bell->file = file + 1;
    return true;
}

static bool open_bell(struct doorbell *bell, const char *base, uint32_t slot, uint64_t now_ns)
{
    if (bell->tried_ns && now_ns - bell->tried_ns < FENCE_BELL_RETRY_NS)
        return false;
    bell->tried_ns = now_ns;
    return connect_bell(bell, base) && send_bell(bell, FENCE_BELL_HELLO, slot, 0);
}

bool doorbell_send(struct doorbell *bell, const char *base, enum fence_bell_kind kind, uint32_t slot, uint32_t device,
                   uint64_t now_ns)
{
    bool fresh = !is_ours(bell);
    if (fresh && !open_bell(bell, base, slot, now_ns))
        return false;
    if (kind == FENCE_BELL_HELLO && fresh)
        return true; /* said when it was opened */
    if (send_bell(bell, kind, slot, device) || errno == EAGAIN)
        return true; /* full: it has unread rings of ours already */
    doorbell_drop(bell);
    return false;
}
