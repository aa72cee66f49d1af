/* Parses quantities as base/units.py does, into integers. Any unusual text is refused and left to Python. */
#ifndef FRONT_UNITS_H
#define FRONT_UNITS_H

#include <stdbool.h>
#include <stdint.h>

enum { WHOLE = 1000 }; /* milli-devices of one card */

/* Digits alone, from `least` to `most`. */
bool units_number(const char *text, int64_t least, int64_t most, int64_t *value);
/* `0.3`, `1`, `.25`, or `4`: milli per card and, above one card, how many (0: not said). */
bool units_gpu(const char *text, int64_t *milli, int64_t *cards);
/* `8GiB`, `1.5GiB`: bytes, rounded up to whole MiB. */
bool units_memory(const char *text, int64_t *bytes);
/* `90s`, `1h30m`: seconds. */
bool units_duration(const char *text, int64_t *seconds);

#endif
