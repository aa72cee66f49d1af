/* Finds and checks the C library of an image. */
#ifndef HOOK_IMAGE_H
#define HOOK_IMAGE_H

#include <stdbool.h>

struct version {
    unsigned major, minor;
};

/* "2.34" and nothing after it. */
bool version_read(const char *text, struct version *version);
bool version_before(struct version one, struct version other);

/* The version of the glibc that programs of this machine's kind get; false, and untouched, where there is none. */
bool image_glibc(struct version *found);
/* Whether programs linked with musl can start. */
bool image_has_musl(void);

#endif
