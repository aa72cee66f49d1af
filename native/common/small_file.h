/* Short files of the kernel (cgroup, proc), checked numbers, one-line messages. */
#ifndef GPUPOOL_COMMON_SMALL_FILE_H
#define GPUPOOL_COMMON_SMALL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The whole of `text` must be a decimal number not above `max`; a sign, a space or nothing is no number. */
bool parse_number(const char *text, uint64_t max, uint64_t *value);

/* Up to size-1 bytes of a file below `dir` (or an absolute path), NUL-terminated; -1 and errno on failure. */
ssize_t read_small(int dir, const char *path, char *buffer, size_t size);

/* Writes a short text in one call to an existing file: the way of cgroup and proc files. 0, or -1 and errno. */
int write_small(int dir, const char *path, const char *text);

/* Control characters become '?', so that a message never breaks a line or a terminal. */
void make_one_line(char *text);

uint64_t clock_ns(int clock);

#endif
