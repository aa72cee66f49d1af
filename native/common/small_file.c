#define _GNU_SOURCE
#include "small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

bool parse_number(const char *text, uint64_t max, uint64_t *value)
{
    uint64_t sum = 0;

    if (*text == '\0')
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        uint64_t digit = (uint64_t)(*text - '0');
        if (sum > (UINT64_MAX - digit) / 10)
            return false;
        sum = sum * 10 + digit;
    }
    if (sum > max)
        return false;
    *value = sum;
    return true;
}

ssize_t read_small(int dir, const char *path, char *buffer, size_t size)
{
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    size_t have = 0;
    ssize_t got = 0;

    if (fd < 0)
        return -1;
    while (have < size - 1 && (got = read(fd, buffer + have, size - 1 - have)) > 0)
        have += (size_t)got;
    int error = errno;
    close(fd);
    if (got < 0) {
        errno = error;
        return -1;
    }
    buffer[have] = '\0';
    return (ssize_t)have;
}

int write_small(int dir, const char *path, const char *text)
{
    int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    ssize_t put = write(fd, text, strlen(text));
    int error = errno;
    close(fd);
    errno = error;
    return put < 0 ? -1 : 0;
}

void make_one_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

uint64_t clock_ns(int clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
