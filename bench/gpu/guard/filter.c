/* The tenant's side: a filter that reports the driver's requests, and the way its listener takes. */
#include "watch.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IS(value, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, then, otherwise)
#define ANSWER(action) BPF_STMT(BPF_RET | BPF_K, action)

int watch_filter(void)
{
    struct sock_filter code[] = {
        LOAD(arch), IS(AUDIT_ARCH_X86_64, 1, 0), ANSWER(SECCOMP_RET_KILL_PROCESS),
        LOAD(nr), IS(__NR_ioctl, 0, 9),
        LOAD(args[1]), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xff),
        IS(RM_ALLOC, 7, 0), IS(RM_CONTROL, 6, 0), IS(RM_FREE, 5, 0), IS(RM_ALLOC_MEMORY, 4, 0),
        IS(RM_DUP_OBJECT, 3, 0), IS(RM_VID_HEAP_CONTROL, 2, 0), IS(RM_XFER, 1, 0),
        ANSWER(SECCOMP_RET_ALLOW), ANSWER(SECCOMP_RET_USER_NOTIF),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

int watch_send_listener(int channel, int listener)
{
    char byte = 'l', room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &listener, sizeof listener);
    return sendmsg(channel, &message, 0) == 1 ? 0 : -1;
}
