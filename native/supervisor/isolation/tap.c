#define _GNU_SOURCE
#include "isolation/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <linux/if_tun.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* In the namespace of the calling thread. */
static int open_here(const char *interface)
{
    /* Without a header for offloads: what a guest sends has its checksums, which a switch in user space needs. */
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};

    /* TUNSETIFF would make an interface that is not there. */
    if (if_nametoindex(interface) == 0)
        return -1;
    int tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    if (tap < 0)
        return -1;
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
    if (ioctl(tap, TUNSETIFF, &request) == 0)
        return tap;
    int error = errno;
    close(tap);
    errno = error;
    return -1;
}

int tap_open(const char *network_namespace, const char *interface)
{
    int tap = -1;
    int here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    int there = open(network_namespace, O_RDONLY | O_CLOEXEC);

    if (here >= 0 && there >= 0 && setns(there, CLONE_NEWNET) == 0) {
        tap = open_here(interface);
        int error = errno;
        if (setns(here, CLONE_NEWNET) < 0) {
            /* The command must not run among the interfaces of the switch. */
            error = errno;
            if (tap >= 0)
                close(tap);
            tap = -1;
        }
        errno = error;
    }
    int error = errno;
    if (here >= 0)
        close(here);
    if (there >= 0)
        close(there);
    errno = error;
    return tap;
}

bool tap_hand_over(int tap)
{
    if (tap == TAP_DESCRIPTOR)
        return fcntl(tap, F_SETFD, 0) == 0;
    return dup2(tap, TAP_DESCRIPTOR) == TAP_DESCRIPTOR;
}
