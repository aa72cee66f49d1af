/* The job's output on disk: segments named by the absolute offset of their first byte, the oldest dropped.

   A name is never changed and a segment never truncated, so a reader needs no agreement with the writer: the names say
   where every byte belongs, before, during and after a rotation. */
#ifndef GPUPOOL_LOG_H
#define GPUPOOL_LOG_H

#include <stdint.h>
#include <sys/types.h>

#include "spec.h"

struct log {
    int directory, fd;
    uint64_t written;                      /* bytes on disk, ever: the next byte's absolute offset */
    uint64_t lost;                         /* bytes the disk refused */
    uint64_t starts[SPEC_MAX_LOG_FILES];   /* first offsets of the segments kept, oldest first */
    unsigned kept, files;
    uint64_t max_bytes;
};

/* Goes on behind what earlier runs of the job wrote in the directory. */
void log_open(struct log *log, int directory, uint64_t max_bytes, unsigned files);

/* Makes the first segment before there are bytes for it: a log that is empty is not a missing one. */
void log_begin(struct log *log);

/* Never fails and never waits for space: what cannot be written is counted in `lost`. */
void log_write(struct log *log, const char *bytes, size_t length);

void log_close(struct log *log);

#endif
