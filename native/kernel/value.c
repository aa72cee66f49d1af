#include "value.h"

#include <stdlib.h>
#include <string.h>

#include "memo.h"
#include "menu.h"

enum { REMEMBERED = 1 << 17, KEY_WORDS = 4 + KERNEL_MAX_CARDS };

struct values {
    struct menu *menus;
    int64_t *menu_of_kind;
    int64_t menus_size, quantum, computed;
    struct memo memo;
};

/* What is left of a node along one stream: free cards, and parts [first, end) of others in ascending order. */
struct left {
    int64_t filled;
    int32_t cpu;
    int whole, first, end;
    int16_t part[KERNEL_MAX_CARDS];
};

/* How far the two lines have come down. They only ever do. */
struct lines {
    int cpu, width;
};

static void lower(const struct menu *menu, const struct left *left, struct lines *lines)
{
    int32_t width = left->whole ? left->whole * KERNEL_WHOLE : left->end > left->first ? left->part[left->end - 1] : 0;
    while (lines->cpu > 0 && menu->cpus[lines->cpu - 1] > left->cpu)
        lines->cpu--;
    while (lines->width > 0 && menu->widths[lines->width - 1] > width)
        lines->width--;
}

/* The first part of at least `milli`; `end` stands for a free card. */
static int tightest(const struct left *left, int milli)
{
    int at = left->first;
    while (at < left->end && left->part[at] < milli)
        at++;
    return at;
}

/* A share on the part at this place; what is too small for any share is forgotten. */
static void cut(struct left *left, int at, int milli, int least)
{
    if (at == left->end) {
        left->whole--;
        left->part[left->end++] = KERNEL_WHOLE;
    }
    int rest = left->part[at] - milli;
    while (at > left->first && left->part[at - 1] > rest) {
        left->part[at] = left->part[at - 1];
        at--;
    }
    left->part[at] = (int16_t)rest;
    if (rest < least)
        left->first++;
}

/* The tightest first: what lies above a place that is cut stays where it is. */
static void cut_several(struct left *left, int count, int milli, int least)
{
    int parts_end = left->end;
    for (int at = tightest(left, milli); count > 0; count--, at++)
        cut(left, at < parts_end ? at : left->end, milli, least);
}

static bool fits_several(const struct left *left, const struct several *several)
{
    return left->whole + left->end - tightest(left, several->milli) >= several->count;
}

/* Which of the places in this word of the stream fit now. */
static uint64_t fitting(const struct menu *menu, int64_t stream, int64_t word, const struct lines *lines,
                        const struct left *left)
{
    uint64_t cpu = menu->below_cpu[(stream * (menu->cpu_heights + 1) + lines->cpu) * menu->words + word];
    uint64_t places = menu->below_width[(stream * (menu->width_heights + 1) + lines->width) * menu->words + word];
    for (int n = 0; n < menu->severals; n++)
        if (fits_several(left, &menu->several[n]))
            places |= menu->several[n].places[stream * menu->words + word];
    return cpu & places;
}

static void place(struct left *left, const struct entry *entry, int least)
{
    left->cpu -= entry->cpu;
    left->filled += entry->count * entry->milli;
    if (entry->milli == KERNEL_WHOLE)
        left->whole -= entry->count;
    else if (entry->count == 1)
        cut(left, tightest(left, entry->milli), entry->milli, least);
    else
        cut_several(left, entry->count, entry->milli, least);
}

/* What one stream places on the node when it is walked once. */
static int64_t walk(const struct menu *menu, int64_t stream, struct left *left, struct lines lines)
{
    const struct entry *entries = menu->entries + stream * menu->words * 64;
    for (int64_t word = 0; word < menu->words; word++) {
        uint64_t after = ~(uint64_t)0, places;
        while ((places = fitting(menu, stream, word, &lines, left) & after)) {
            int at = __builtin_ctzll(places);
            place(left, &entries[word * 64 + at], menu->least_milli);
            lower(menu, left, &lines);
            after = at == 63 ? 0 : ~(uint64_t)0 << (at + 1);
        }
    }
    return left->filled;
}

/* Parts that no share can use are left out: they make no difference and fewer states to remember. */
static struct left start_of(const struct values *values, const struct menu *menu, const struct state *state)
{
    int64_t cpu = floor_div(state->cpu, values->quantum);
    struct left left = {.whole = state->whole, .cpu = cpu < INT32_MAX ? (int32_t)cpu : INT32_MAX};
    for (int n = 0; n < state->parts; n++)
        if (state->part[n] >= menu->least_milli)
            left.part[left.end++] = state->part[n];
    return left;
}

/* What the classes that can run here could use: what is free on cards wide enough for one of their seats. */
static int64_t usable(const struct menu *menu, const struct left *left)
{
    int64_t worth = 0;
    for (const struct able *able = menu->ables; able < menu->ables + menu->ables_size; able++) {
        int64_t wide = (int64_t)left->whole * KERNEL_WHOLE;
        int at = tightest(left, able->entry.milli);
        if (able->entry.cpu > left->cpu || able->entry.count > left->whole + left->end - at)
            continue;
        for (; at < left->end; at++)
            wide += left->part[at];
        worth += able->weight * wide;
    }
    return worth;
}

/* What the parts are worth to shares that are cut well. */
static int64_t cuts(const struct menu *menu, const struct left *left)
{
    int64_t worth = left->whole * menu->cuts[KERNEL_WHOLE];
    for (int at = left->first; at < left->end; at++)
        worth += menu->cuts[left->part[at]];
    return worth;
}

static int64_t compute(struct values *values, const struct menu *menu, const struct left *start)
{
    struct lines lines = {menu->cpu_heights, menu->width_heights};
    int64_t filled = cuts(menu, start) + (menu->ables ? usable(menu, start) : 0);
    lower(menu, start, &lines);
    for (int64_t stream = 0; stream < menu->streams; stream++) {
        struct left left = *start;
        filled += walk(menu, stream, &left, lines);
    }
    values->computed++;
    return filled;
}

int64_t values_of(struct values *values, const struct state *state)
{
    int64_t number = values->menu_of_kind[state->kind], filled;
    const struct menu *menu = &values->menus[number];
    struct left left = start_of(values, menu, state);
    int16_t key[KEY_WORDS] = {(int16_t)number, (int16_t)left.whole, (int16_t)(left.cpu & 0xffff), (int16_t)(left.cpu >> 16)};
    uint32_t length = 4 + (uint32_t)left.end;
    if (!menu->cpu_heights || left.cpu < menu->cpus[0] || !(left.whole | left.end))
        return 0;
    memcpy(key + 4, left.part, (size_t)left.end * sizeof *key);
    if (!memo_get(&values->memo, key, length, &filled)) {
        filled = compute(values, menu, &left);
        memo_put(&values->memo, key, length, filled);
    }
    return filled;
}

int64_t values_computed(const struct values *values)
{
    return values->computed;
}

static bool same_classes(const struct kernel_classes *expected, int64_t kinds, int64_t one, int64_t other)
{
    for (int64_t class = 0; class < expected->size; class++)
        if (!expected->allowed[class * kinds + one] != !expected->allowed[class * kinds + other])
            return false;
    return true;
}

/* One menu for all kinds that may take the same classes. */
static bool open_menus(struct values *values, int64_t kinds, const struct kernel_classes *expected,
                       const struct stream_rules *rules)
{
    for (int64_t kind = 0; kind < kinds; kind++) {
        int64_t like = 0;
        while (like < kind && !same_classes(expected, kinds, like, kind))
            like++;
        values->menu_of_kind[kind] = like < kind ? values->menu_of_kind[like] : values->menus_size;
        if (like < kind)
            continue;
        if (!menu_open(&values->menus[values->menus_size], expected, kinds, kind, rules))
            return false;
        values->menus_size++;
    }
    return true;
}

struct values *values_open(int64_t kinds, const struct kernel_classes *expected, const struct stream_rules *rules)
{
    struct values *values = calloc(1, sizeof *values);
    if (!values)
        return NULL;
    values->quantum = rules->quantum;
    values->menus = calloc((size_t)kinds + 1, sizeof *values->menus);
    values->menu_of_kind = calloc((size_t)kinds + 1, sizeof *values->menu_of_kind);
    bool opened = memo_open(&values->memo, REMEMBERED);
    if (opened && values->menus && values->menu_of_kind && open_menus(values, kinds, expected, rules))
        return values;
    values_close(values);
    return NULL;
}

void values_close(struct values *values)
{
    if (!values)
        return;
    for (int64_t n = 0; n < values->menus_size; n++)
        menu_close(&values->menus[n]);
    free(values->menus);
    free(values->menu_of_kind);
    memo_close(&values->memo);
    free(values);
}
