/* Written by make_codes.py; do not edit. */
#ifndef FRONT_CODES_H
#define FRONT_CODES_H

#include <stdbool.h>
#include <stdint.h>

/* Every public code: its exit code, and whether it says that the pool cannot answer now. */
static const struct {
    const char *code;
    int exit_code;
    bool unavailable;
} CODES[] = {
    {"GP-1000", 2, false},
    {"GP-1001", 2, false},
    {"GP-1002", 2, false},
    {"GP-1003", 2, false},
    {"GP-1004", 2, false},
    {"GP-1005", 2, false},
    {"GP-1006", 127, false},
    {"GP-1007", 2, false},
    {"GP-1010", 2, false},
    {"GP-1011", 2, false},
    {"GP-1020", 2, false},
    {"GP-1021", 2, false},
    {"GP-1022", 2, false},
    {"GP-1030", 2, false},
    {"GP-1040", 2, false},
    {"GP-1041", 2, false},
    {"GP-1042", 2, false},
    {"GP-1043", 2, false},
    {"GP-1044", 2, false},
    {"GP-1050", 2, false},
    {"GP-2000", 3, false},
    {"GP-2001", 3, false},
    {"GP-2002", 3, false},
    {"GP-2003", 3, false},
    {"GP-2004", 3, false},
    {"GP-2005", 3, false},
    {"GP-2006", 3, false},
    {"GP-2007", 3, false},
    {"GP-2008", 3, false},
    {"GP-2014", 3, false},
    {"GP-2015", 3, false},
    {"GP-2016", 3, false},
    {"GP-2017", 3, false},
    {"GP-2018", 3, false},
    {"GP-2030", 3, false},
    {"GP-2031", 3, false},
    {"GP-2032", 3, false},
    {"GP-2033", 3, false},
    {"GP-2034", 3, false},
    {"GP-2035", 3, false},
    {"GP-2036", 3, false},
    {"GP-2037", 3, false},
    {"GP-2038", 3, false},
    {"GP-2044", 3, false},
    {"GP-2045", 3, false},
    {"GP-2048", 3, false},
    {"GP-2052", 3, false},
    {"GP-2053", 3, false},
    {"GP-2070", 3, false},
    {"GP-3001", 4, false},
    {"GP-3002", 4, false},
    {"GP-3003", 5, false},
    {"GP-3004", 5, false},
    {"GP-3005", 5, false},
    {"GP-3006", 2, false},
    {"GP-3009", 5, false},
    {"GP-3010", 4, false},
    {"GP-3011", 4, false},
    {"GP-3012", 4, false},
    {"GP-4000", 6, false},
    {"GP-4001", 6, false},
    {"GP-4002", 6, false},
    {"GP-4003", 6, false},
    {"GP-4004", 6, false},
    {"GP-4005", 6, false},
    {"GP-4006", 6, false},
    {"GP-4007", 6, false},
    {"GP-5000", 7, true},
    {"GP-5001", 7, true},
    {"GP-5002", 7, true},
    {"GP-5003", 7, true},
    {"GP-5004", 7, true},
    {"GP-5005", 7, true},
    {"GP-5006", 7, true},
    {"GP-5007", 7, true},
    {"GP-5008", 7, true},
    {"GP-5009", 7, true},
    {"GP-5010", 1, false},
    {"GP-5023", 7, true},
    {"GP-5024", 7, true},
    {"GP-5032", 7, true},
    {"GP-5033", 7, true},
    {"GP-5034", 7, true},
    {"GP-5035", 7, true},
    {"GP-5036", 7, true},
    {"GP-5037", 7, true},
    {"GP-5045", 7, true},
    {"GP-5900", 1, false},
};

struct range {
    uint32_t first, last;
};

/* Shown as escapes. */
static const struct range UNPRINTABLE[] = {
    {0x0, 0x1f},
    {0x7f, 0xa0},
    {0xad, 0xad},
    {0x600, 0x605},
    {0x61c, 0x61c},
    {0x6dd, 0x6dd},
    {0x70f, 0x70f},
    {0x890, 0x891},
    {0x8e2, 0x8e2},
    {0x1680, 0x1680},
    {0x180e, 0x180e},
    {0x2000, 0x200f},
    {0x2028, 0x202f},
    {0x205f, 0x2064},
    {0x2066, 0x206f},
    {0x3000, 0x3000},
    {0xd800, 0xf8ff},
    {0xfeff, 0xfeff},
    {0xfff9, 0xfffb},
    {0x110bd, 0x110bd},
    {0x110cd, 0x110cd},
    {0x13430, 0x13438},
    {0x1bca0, 0x1bca3},
    {0x1d173, 0x1d17a},
    {0xe0001, 0xe0001},
    {0xe0020, 0xe007f},
    {0xf0000, 0xffffd},
    {0x100000, 0x10fffd},
};

/* What ends a line for str.splitlines. */
static const struct range LINE_BREAKS[] = {
    {0xa, 0xd},
    {0x1c, 0x1e},
    {0x85, 0x85},
    {0x2028, 0x2029},
};

/* What str.strip takes away. */
static const struct range BLANKS[] = {
    {0x9, 0xd},
    {0x1c, 0x20},
    {0x85, 0x85},
    {0xa0, 0xa0},
    {0x1680, 0x1680},
    {0x2000, 0x200a},
    {0x2028, 0x2029},
    {0x202f, 0x202f},
    {0x205f, 0x205f},
    {0x3000, 0x3000},
};

#endif
