#include "units.h"

#include <stddef.h>
#include <string.h>

#define MIB (INT64_C(1) << 20)

static bool is_digit(char sign)
{
    return sign >= '0' && sign <= '9';
}

/* Up to `longest` digits, moved over; how many there were. */
static size_t read_digits(const char **text, size_t longest, int64_t *value)
{
    size_t count = 0;

    for (*value = 0; count < longest && is_digit(**text); count++)
        *value = *value * 10 + (*(*text)++ - '0');
    return count;
}

bool units_number(const char *text, int64_t least, int64_t most, int64_t *value)
{
    return read_digits(&text, 9, value) && *text == '\0' && *value >= least && *value <= most;
}

static bool whole_cards(const char *text, int64_t *milli, int64_t *cards)
{
    *milli = WHOLE;
    return *text != '0' && units_number(text, 2, 100000, cards);
}

bool units_gpu(const char *text, int64_t *milli, int64_t *cards)
{
    int64_t whole, part = 0;
    const char *at = text;
    size_t digits = read_digits(&at, 1, &whole), decimals = 0;

    *cards = 0;
    if (*at == '.') {
        at++;
        decimals = read_digits(&at, 3, &part);
    }
    if (*at != '\0' || digits + decimals == 0)
        return whole_cards(text, milli, cards);
    for (; decimals < 3; decimals++)
        part *= 10;
    *milli = whole * WHOLE + part;
    if (*milli > 0 && *milli <= WHOLE)
        return true;
    return whole_cards(text, milli, cards);
}

static int64_t factor_of(const char *unit)
{
    static const struct {
        const char *name;
        int64_t factor;
    } UNITS[] = {
        {"b", 1},
        {"kib", INT64_C(1) << 10}, {"mib", MIB}, {"gib", INT64_C(1) << 30}, {"tib", INT64_C(1) << 40},
        {"ki", INT64_C(1) << 10}, {"mi", MIB}, {"gi", INT64_C(1) << 30}, {"ti", INT64_C(1) << 40},
        {"kb", 1000}, {"mb", 1000000}, {"gb", 1000000000}, {"tb", INT64_C(1000000000000)},
    };
    char lower[4] = "";

    for (size_t i = 0; unit[i]; i++) {
        char letter = unit[i] >= 'A' && unit[i] <= 'Z' ? (char)(unit[i] + 32) : unit[i];
        if (i == 3)
            return 0;
        lower[i] = letter;
    }
    for (size_t i = 0; i < sizeof UNITS / sizeof *UNITS; i++)
        if (strcmp(lower, UNITS[i].name) == 0)
            return UNITS[i].factor;
    return 0;
}

/* At most twelve digits in all: times a TiB that is far below 128 bits, and below what Python's Decimal rounds. */
bool units_memory(const char *text, int64_t *bytes)
{
    int64_t whole, part = 0, scale = 1;
    size_t digits = read_digits(&text, 12, &whole);

    if (digits == 0)
        return false;
    if (*text == '.') {
        text++;
        size_t decimals = read_digits(&text, 12 - digits, &part);
        if (decimals == 0)
            return false;
        while (decimals--)
            scale *= 10;
    }
    int64_t factor = factor_of(text);
    __extension__ typedef __int128 wide;
    wide exact = ((wide)whole * scale + part) * factor;
    if (factor == 0 || exact <= 0 || exact > ((wide)1 << 60) * scale)
        return false;
    wide unit = (wide)scale * MIB;
    *bytes = (int64_t)((exact + unit - 1) / unit) * MIB;
    return true;
}

static int64_t seconds_of(char unit)
{
    switch (unit) {
    case 's': case 'S':
        return 1;
    case 'm': case 'M':
        return 60;
    case 'h': case 'H':
        return 3600;
    case 'd': case 'D':
        return 86400;
    case 'w': case 'W':
        return 7 * 86400;
    default:
        return 0;
    }
}

bool units_duration(const char *text, int64_t *seconds)
{
    *seconds = 0;
    for (int parts = 0; *text; parts++) {
        int64_t number, unit;
        if (parts == 8 || read_digits(&text, 9, &number) == 0 || (unit = seconds_of(*text)) == 0)
            return false;
        *seconds += number * unit;
        text++;
    }
    return *seconds > 0 && *seconds <= INT64_C(10) * 366 * 86400;
}
