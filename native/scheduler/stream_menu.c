#include "stream_menu.h"

#include <stdlib.h>
#include <string.h>

#include "state.h"

enum { PLACES_PER_WORD = 64 };

static int ascending(const void *a, const void *b)
{
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    return (left > right) - (left < right);
}

/* Sorts and keeps each number once; returns how many are left. */
static int distinct(int32_t *numbers, int size)
{
    int kept = 0;
    qsort(numbers, (size_t)size, sizeof *numbers, ascending);
    for (int n = 0; n < size; n++)
        if (!kept || numbers[kept - 1] != numbers[n])
            numbers[kept++] = numbers[n];
    return kept;
}

static bool is_several(const struct entry *entry)
{
    return entry->count > 1 && entry->milli < KERNEL_WHOLE;
}

/* How wide the cards' line must be for the claim: its share, or its whole cards together. */
static int32_t width_of(const struct entry *entry)
{
    return entry->milli < KERNEL_WHOLE ? entry->milli : entry->milli * entry->count;
}

static struct entry entry_of(const struct kernel_classes *expected, int64_t class, int64_t kinds, int64_t kind,
                             int64_t quantum)
{
    int64_t cpu = (expected->cpu[class] + quantum - 1) / quantum;
    int64_t need = expected->need ? expected->need[class * kinds + kind] : 0;
    return (struct entry){cpu < INT32_MAX ? (int32_t)cpu : INT32_MAX, (int16_t)expected->count[class],
                          (int16_t)expected->milli[class], (int16_t)need};
}

static bool is_listed(const struct kernel_classes *expected, int64_t class, int64_t kinds, int64_t kind)
{
    int64_t count = expected->count[class], milli = expected->milli[class];
    return count > 0 && count <= KERNEL_MAX_CARDS && milli > 0 && milli <= KERNEL_WHOLE &&
           expected->allowed[class * kinds + kind] &&
           (!expected->need || expected->need[class * kinds + kind] <= 1000);
}

static bool reserve(struct stream_menu *menu, int64_t classes)
{
    size_t places = (size_t)(menu->streams * menu->words) + 1, each = (size_t)classes;
    menu->entries = calloc(places * PLACES_PER_WORD, sizeof *menu->entries);
    menu->cpus = calloc(each + 1, sizeof *menu->cpus);
    menu->widths = calloc(each + 1, sizeof *menu->widths);
    menu->below_cpu = calloc(places * (each + 1), sizeof *menu->below_cpu);
    menu->below_width = calloc(places * (each + 1), sizeof *menu->below_width);
    menu->several = calloc(each + 1, sizeof *menu->several);
    return menu->entries && menu->cpus && menu->widths && menu->below_cpu && menu->below_width && menu->several;
}

/* The least memory that a class needs, and the most of it to a milli-device. */
static void note_memory(struct stream_menu *menu, const struct entry *entry)
{
    if (entry->need < menu->least_need)
        menu->least_need = entry->need;
    if ((int32_t)entry->need * menu->most_milli > (int32_t)menu->most_need * entry->milli) {
        menu->most_need = entry->need;
        menu->most_milli = entry->milli;
    }
}

/* The heights of both lines, and the claims that sit on none. False: no memory. */
static bool draw_lines(struct stream_menu *menu, const struct kernel_classes *expected, int64_t kinds, int64_t kind,
                       int64_t quantum)
{
    menu->least_milli = KERNEL_WHOLE;
    menu->least_need = 1000;
    menu->most_milli = 1;
    menu->by_memory = expected->need;
    for (int64_t class = 0; class < expected->size; class++) {
        if (!is_listed(expected, class, kinds, kind))
            continue;
        struct entry entry = entry_of(expected, class, kinds, kind, quantum);
        note_memory(menu, &entry);
        menu->cpus[menu->cpu_heights++] = entry.cpu;
        if (entry.milli < menu->least_milli)
            menu->least_milli = entry.milli;
        if (!is_several(&entry)) {
            menu->widths[menu->width_heights++] = width_of(&entry);
            continue;
        }
        struct several *several = &menu->several[menu->severals++];
        *several = (struct several){entry.count, entry.milli,
                                    calloc((size_t)(menu->streams * menu->words) + 1, sizeof(uint64_t))};
        if (!several->places)
            return false;
    }
    menu->cpu_heights = distinct(menu->cpus, menu->cpu_heights);
    menu->width_heights = distinct(menu->widths, menu->width_heights);
    return true;
}

/* Marks the place in the sets of every height that reaches the number. */
static void mark(uint64_t *below, const int32_t *heights, int size, int32_t number, const struct stream_menu *menu, int64_t stream,
                 int64_t place)
{
    uint64_t *of_stream = below + stream * (size + 1) * menu->words;
    for (int height = 1; height <= size; height++)
        if (number <= heights[height - 1])
            of_stream[height * menu->words + place / PLACES_PER_WORD] |= (uint64_t)1 << place % PLACES_PER_WORD;
}

static void mark_several(struct stream_menu *menu, const struct entry *entry, int64_t stream, int64_t place)
{
    for (int n = 0; n < menu->severals; n++) {
        struct several *several = &menu->several[n];
        if (several->count == entry->count && several->milli == entry->milli) {
            several->places[stream * menu->words + place / PLACES_PER_WORD] |= (uint64_t)1 << place % PLACES_PER_WORD;
            return;
        }
    }
}

/* The classes themselves, where what they could use is the value. */
static bool list_ables(struct stream_menu *menu, const struct kernel_classes *expected, int64_t kinds, int64_t kind,
                       const struct stream_rules *rules)
{
    menu->ables = calloc((size_t)expected->size + 1, sizeof *menu->ables);
    for (int64_t class = 0; menu->ables && class < expected->size; class++)
        if (is_listed(expected, class, kinds, kind))
            menu->ables[menu->ables_size++] = (struct able){entry_of(expected, class, kinds, kind, rules->quantum), rules->weight[class]};
    return menu->ables;
}

/* One stream without the claims that a node of this kind never takes. */
static void lay_out(struct stream_menu *menu, const struct kernel_classes *expected, int64_t kinds, int64_t kind,
                    const struct stream_rules *rules, int64_t stream)
{
    int64_t place = 0;
    for (int64_t n = 0; n < rules->length; n++) {
        int64_t class = rules->streams[stream * rules->length + n];
        if (!is_listed(expected, class, kinds, kind))
            continue;
        struct entry entry = entry_of(expected, class, kinds, kind, rules->quantum);
        menu->entries[stream * menu->words * PLACES_PER_WORD + place] = entry;
        mark(menu->below_cpu, menu->cpus, menu->cpu_heights, entry.cpu, menu, stream, place);
        if (is_several(&entry))
            mark_several(menu, &entry, stream, place);
        else
            mark(menu->below_width, menu->widths, menu->width_heights, width_of(&entry), menu, stream, place);
        place++;
    }
}

int stream_menu_open(struct stream_menu *menu, const struct kernel_classes *expected, int64_t kinds, int64_t kind,
              const struct stream_rules *rules)
{
    *menu = (struct stream_menu){.streams = rules->weight ? 0 : rules->number,
                          .words = (rules->length + PLACES_PER_WORD - 1) / PLACES_PER_WORD,
                          .cuts = rules->cuts + kind * (KERNEL_WHOLE + 1)};
    if (!reserve(menu, expected->size) || !draw_lines(menu, expected, kinds, kind, rules->quantum) ||
        (rules->weight && !list_ables(menu, expected, kinds, kind, rules))) {
        stream_menu_close(menu);
        return 0;
    }
    for (int64_t stream = 0; stream < menu->streams; stream++)
        lay_out(menu, expected, kinds, kind, rules, stream);
    return 1;
}

void stream_menu_close(struct stream_menu *menu)
{
    for (int n = 0; n < menu->severals; n++)
        free(menu->several[n].places);
    free(menu->several);
    free(menu->ables);
    free(menu->entries);
    free(menu->cpus);
    free(menu->widths);
    free(menu->below_cpu);
    free(menu->below_width);
    *menu = (struct stream_menu){0};
}
