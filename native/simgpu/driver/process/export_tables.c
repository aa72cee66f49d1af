/* Which tables exist and which of their slots do something was found by watching runtimes ask a driver of our own.

   One table is deliberately without an answer: with it the vendor's runtime makes sure that it talks to the vendor's
   driver, and this is not the vendor's driver. Its slots say NOT_SUPPORTED, and the runtime then stops with error 103. */
#include "export_tables.h"
#include "contexts/context.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS 40

struct context_value {
    struct context_value *next;
    void *key, *value;
    void (*destroy)(CUcontext, void *, void *);
};

static CUcontext named_or_current(CUcontext context)
{
    context = context ? context : context_top();
    return handle_is(context, HANDLE_CONTEXT) && context->alive ? context : NULL;
}

static CUresult value_put(CUcontext context, void *key, void *value, void (*destroy)(CUcontext, void *, void *))
{
    LOCKED();
    context = named_or_current(context);
    REQUIRE(context, CUDA_ERROR_INVALID_CONTEXT);
    struct context_value *entry = malloc(sizeof *entry);
    REQUIRE(entry, CUDA_ERROR_OUT_OF_MEMORY);
    *entry = (struct context_value){context->values, key, value, destroy};
    context->values = entry;
    return CUDA_SUCCESS;
}

static CUresult value_delete(CUcontext context, void *key)
{
    LOCKED();
    context = named_or_current(context);
    REQUIRE(context, CUDA_ERROR_INVALID_CONTEXT);
    struct context_value **link = &context->values;
    while (*link && (*link)->key != key)
        link = &(*link)->next;
    struct context_value *entry = *link;
    REQUIRE(entry, CUDA_ERROR_INVALID_VALUE);
    *link = entry->next;
    free(entry);
    return CUDA_SUCCESS;
}

static CUresult value_get(void **value, CUcontext context, void *key)
{
    LOCKED();
    context = named_or_current(context);
    REQUIRE(value && context, CUDA_ERROR_INVALID_CONTEXT);
    for (struct context_value *entry = context->values; entry; entry = entry->next) {
        if (entry->key == key) {
            *value = entry->value;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

void context_values_release(CUcontext context)
{
    for (;;) {
        driver_lock();
        struct context_value *entry = context->values;
        if (entry)
            context->values = entry->next;
        driver_unlock();
        if (!entry)
            return;
        if (entry->destroy)
            entry->destroy(context, entry->key, entry->value);
        free(entry);
    }
}

static uint64_t nothing_to_do(void)
{
    return CUDA_SUCCESS;
}

static uint64_t no_answer(void)
{
    return (uint64_t)unsupported("self-test of the vendor's runtime", __builtin_return_address(0));
}

/* A place for the runtime's own bookkeeping; what it means is not known, only that there must be one. */
static uint64_t hook_words(void **place, size_t *count)
{
    static uint64_t words[1024];

    *place = words;
    *count = sizeof words / sizeof *words;
    return CUDA_SUCCESS;
}

static uint64_t hook_few_words(void **place, size_t *count)
{
    static uint64_t words[14];

    *place = words;
    *count = sizeof words / sizeof *words;
    return CUDA_SUCCESS;
}

#define SLOT(function) ((void *)(uintptr_t)(function))
#define EMPTY [0 ... SLOTS - 1] = SLOT(nothing_to_do)

static void *of_runtime[SLOTS] = {EMPTY}, *of_thread[SLOTS] = {EMPTY}, *of_checks[SLOTS] = {EMPTY},
            *of_anything[SLOTS] = {EMPTY};
static void *of_self_test[SLOTS] = {[0 ... SLOTS - 1] = SLOT(no_answer)};
static void *of_hooks[SLOTS] = {SLOT(nothing_to_do), SLOT(nothing_to_do), SLOT(hook_words), SLOT(nothing_to_do),
                                SLOT(nothing_to_do), SLOT(nothing_to_do), SLOT(hook_few_words)};
static void *of_context_values[SLOTS] = {SLOT(value_put), SLOT(value_delete), SLOT(value_get), SLOT(nothing_to_do)};

/* `slots` 0: refused. `sized`: slot 0 holds the table's bytes instead of a function. */
static const struct table {
    unsigned char id[16];
    unsigned slots;
    bool sized, profiler;
    void **slot;
} tables[] = {
    {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9},
     13, true, false, of_runtime},
    {{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a, 0x66},
     7, true, false, of_hooks},
    {{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc},
     4, true, false, of_thread},
    {{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93},
     4, false, false, of_context_values},
    {{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa, 0x7e},
     4, true, false, of_checks},
    {{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2},
     SLOTS, true, false, of_anything},
    {{0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99, 0x1e},
     SLOTS, true, false, of_anything},
    {{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1, 0xf2},
     3, true, false, of_self_test},
    {{0x7c, 0xb6, 0x3f, 0x9b, 0x9c, 0xa4, 0x8e, 0x42, 0xa4, 0x84, 0xbe, 0xb6, 0x6e, 0x6a, 0xed, 0x7f},
     SLOTS, true, true, of_anything},
    {{0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e, 0xb9, 0xe2, 0xfb, 0x46, 0x9e, 0x7c, 0x0d, 0xd9},
     0, false, false, NULL},
    {{0xda, 0x91, 0x51, 0xd3, 0x3a, 0xe6, 0xcc, 0x41, 0xa5, 0xc0, 0x4f, 0x26, 0xd5, 0x33, 0xe3, 0x28},
     0, false, false, NULL},
};

/* The profiler's library asks for this table first, then for dozens more, and without them asks forever. */
static _Atomic bool profiler_asked;
static const struct table unknown = {{0}, SLOTS, true, false, of_anything};

static const struct table *find(const CUuuid *id)
{
    for (size_t at = 0; at < sizeof tables / sizeof *tables; ++at)
        if (!memcmp(tables[at].id, id->bytes, sizeof tables[at].id))
            return &tables[at];
    return profiler_asked ? &unknown : NULL;
}

static void log_table(const CUuuid *id, bool given)
{
    const unsigned char *u = (const unsigned char *)id->bytes;

    log_line("export table %02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x %s", u[0], u[1], u[2],
             u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15],
             given ? "given" : "refused");
}

CUresult cuGetExportTable(const void **out, const CUuuid *id)
{
    REQUIRE(out && id, CUDA_ERROR_INVALID_VALUE);
    const struct table *table = find(id);
    if (table && table->profiler)
        profiler_asked = true;
    log_table(id, table && table->slots);
    *out = NULL;
    REQUIRE(table && table->slots, CUDA_ERROR_INVALID_VALUE);
    driver_lock();
    if (table->sized)
        table->slot[0] = (void *)(uintptr_t)(table->slots * sizeof(void *));
    driver_unlock();
    *out = table->slot;
    return CUDA_SUCCESS;
}
