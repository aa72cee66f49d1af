#include "stream_value.h"

#include <stdlib.h>
#include <string.h>

#include "stream_menu.h"
#include "value_cache.h"

enum { REMEMBERED = 1 << 17, KEY_WORDS = 4 + 2 * KERNEL_MAX_CARDS };

struct values {
    struct stream_menu *menus;
    int64_t *menu_of_kind;
    int64_t menus_size, quantum, computed;
    struct value_cache memo;
};

/* What is left of a node along one stream: free cards, and parts [first, end) of others in ascending order. */
struct left {
    int64_t filled;
    int32_t cpu;
    int whole, first, end, full;
    int32_t part[KERNEL_MAX_CARDS];
};

/* How far the two lines have come down. They only ever do. */
struct lines {
    int cpu, width;
};

static void lower(const struct stream_menu *menu, const struct left *left, struct lines *lines)
{
    int32_t width = left->whole ? left->whole * KERNEL_WHOLE : left->end > left->first ? milli_of(left->part[left->end - 1]) : 0;
    while (lines->cpu > 0 && menu->cpus[lines->cpu - 1] > left->cpu)
        lines->cpu--;
    while (lines->width > 0 && menu->widths[lines->width - 1] > width)
        lines->width--;
}

/* The first part from `at` on that takes the seat; `end` stands for a free card. */
static int next_part(const struct left *left, int at, int end, int seat)
{
    while (at < end && !part_takes(left->part[at], seat))
        at++;
    return at;
}

static int tightest(const struct left *left, int seat)
{
    return next_part(left, left->first, left->end, seat);
}

static int seat_in(const struct entry *entry)
{
    return part_of(entry->milli, entry->need);
}

/* A share on the part at this place; what is too small for any share is forgotten. */
static void cut(struct left *left, int at, int seat, int least)
{
    if (at == left->end) {
        left->whole--;
        left->part[left->end++] = left->full;
    }
    int rest = part_less(left->part[at], seat);
    while (at > left->first && left->part[at - 1] > rest) {
        left->part[at] = left->part[at - 1];
        at--;
    }
    left->part[at] = rest;
    if (milli_of(rest) < least)
        left->first++;
}

/* The tightest first: what lies above a place that is cut stays where it is. */
static void cut_several(struct left *left, int count, int seat, int least)
{
    int parts_end = left->end;
    for (int at = tightest(left, seat); count > 0; count--, at = next_part(left, at + 1, parts_end, seat))
        cut(left, at < parts_end ? at : left->end, seat, least);
}

static bool fits_several(const struct left *left, const struct several *several)
{
    return left->whole + left->end - tightest(left, part_of(several->milli, 0)) >= several->count;
}

/* Whether memory is enough too; the lines know nothing of it. */
static bool has_memory(const struct left *left, const struct entry *entry)
{
    int there = left->whole, seat = seat_in(entry);
    for (int at = left->first; entry->milli < KERNEL_WHOLE && there < entry->count && at < left->end; at++)
        there += part_takes(left->part[at], seat);
    return there >= entry->count;
}

/* Which of the places in this word of the stream fit now. */
static uint64_t fitting(const struct stream_menu *menu, int64_t stream, int64_t word, const struct lines *lines,
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
        cut(left, tightest(left, seat_in(entry)), seat_in(entry), least);
    else
        cut_several(left, entry->count, seat_in(entry), least);
}

/* What one stream places on the node when it is walked once. */
static int64_t walk(const struct stream_menu *menu, int64_t stream, struct left *left, struct lines lines)
{
    const struct entry *entries = menu->entries + stream * menu->words * 64;
    for (int64_t word = 0; word < menu->words; word++) {
        uint64_t after = ~(uint64_t)0, places;
        while ((places = fitting(menu, stream, word, &lines, left) & after)) {
            int at = __builtin_ctzll(places);
            if (!menu->by_memory || has_memory(left, &entries[word * 64 + at])) {
                place(left, &entries[word * 64 + at], menu->least_milli);
                lower(menu, left, &lines);
            }
            after = at == 63 ? 0 : ~(uint64_t)0 << (at + 1);
        }
    }
    return left->filled;
}

/* A part with no more memory than claims could use beside its compute. */
static int32_t capped(const struct stream_menu *menu, int part)
{
    int most = (milli_of(part) * menu->most_need + menu->most_milli - 1) / menu->most_milli;
    return memory_of(part) > most ? part_of(milli_of(part), most) : part;
}

/* Parts that no share can use are left out, and memory that none can: they make no difference and fewer states to remember. */
static struct left start_of(const struct values *values, const struct stream_menu *menu, const struct state *state)
{
    int64_t cpu = floor_div(state->cpu, values->quantum);
    struct left left = {.whole = state->whole, .full = state->full, .cpu = cpu < INT32_MAX ? (int32_t)cpu : INT32_MAX};
    for (int n = 0; n < state->parts; n++)
        if (milli_of(state->part[n]) >= menu->least_milli && (!menu->by_memory || memory_of(state->part[n]) >= menu->least_need))
            left.part[left.end++] = menu->by_memory ? capped(menu, state->part[n]) : state->part[n];
    return left;
}

/* How much of a card that takes one the class could use before memory is gone. */
static int64_t within_memory(const struct entry *entry, int part)
{
    int64_t enough = entry->need ? (int64_t)memory_of(part) * entry->milli / entry->need : KERNEL_WHOLE;
    return enough < milli_of(part) ? enough : milli_of(part);
}

/* What one class could use: what is free on cards wide enough for one of its seats. */
static int64_t usable_by(const struct entry *entry, const struct left *left)
{
    int64_t wide = left->whole * within_memory(entry, left->full);
    int cards = left->whole;
    for (int at = tightest(left, seat_in(entry)); at < left->end; at++)
        if (part_takes(left->part[at], seat_in(entry))) {
            wide += within_memory(entry, left->part[at]);
            cards++;
        }
    return cards >= entry->count ? wide : 0;
}

/* What the classes that can run here could use, by how often they come. */
static int64_t usable(const struct stream_menu *menu, const struct left *left)
{
    int64_t worth = 0;
    for (const struct able *able = menu->ables; able < menu->ables + menu->ables_size; able++)
        if (able->entry.cpu <= left->cpu)
            worth += able->weight * usable_by(&able->entry, left);
    return worth;
}

/* What the parts are worth to shares that are cut well. */
static int64_t cuts(const struct stream_menu *menu, const struct left *left)
{
    int64_t worth = left->whole * menu->cuts[KERNEL_WHOLE];
    for (int at = left->first; at < left->end; at++)
        worth += menu->cuts[milli_of(left->part[at])];
    return worth;
}

static int64_t compute(struct values *values, const struct stream_menu *menu, const struct left *start)
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
    const struct stream_menu *menu = &values->menus[number];
    struct left left = start_of(values, menu, state);
    int16_t key[KEY_WORDS] = {(int16_t)number, (int16_t)left.whole, (int16_t)(left.cpu & 0xffff), (int16_t)(left.cpu >> 16)};
    if (!menu->cpu_heights || left.cpu < menu->cpus[0] || !(left.whole | left.end))
        return 0;
    uint32_t length = 4;
    for (int at = 0; at < left.end; at++) {
        key[length++] = (int16_t)milli_of(left.part[at]);
        if (menu->by_memory)
            key[length++] = (int16_t)memory_of(left.part[at]);
    }
    if (!value_cache_get(&values->memo, key, length, &filled)) {
        filled = compute(values, menu, &left);
        value_cache_put(&values->memo, key, length, filled);
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
        if (!expected->allowed[class * kinds + one] != !expected->allowed[class * kinds + other] ||
            (expected->need && expected->need[class * kinds + one] != expected->need[class * kinds + other]))
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
        if (!stream_menu_open(&values->menus[values->menus_size], expected, kinds, kind, rules))
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
    bool opened = value_cache_open(&values->memo, REMEMBERED);
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
        stream_menu_close(&values->menus[n]);
    free(values->menus);
    free(values->menu_of_kind);
    value_cache_close(&values->memo);
    free(values);
}
