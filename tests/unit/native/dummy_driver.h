/* A driver that does nothing: every function keeps its own name in dummy_called and returns 0.
   Three answer more: the version, and the look-ups. */
#include <stddef.h>
#include <string.h>

struct dummy_form {
    const char *base;
    int born, form, per_thread;
    void *function;
};

extern const struct dummy_form dummy_forms[];
const char *dummy_called;

/* Look-ups give `name` itself, or with DUMMY_APART another address of it, as a driver may. */
#define DUMMY(name) \
    int name(void) \
    { \
        dummy_called = #name; \
        return 0; \
    } \
    static int apart_##name(void) \
    { \
        dummy_called = "apart_" #name; \
        return 0; \
    }

#ifdef DUMMY_APART
#define LOOKED_UP(name) (void *)apart_##name
#else
#define LOOKED_UP(name) (void *)name
#endif
#define apart_cuGetProcAddress cuGetProcAddress
#define apart_cuGetProcAddress_v2 cuGetProcAddress_v2
#define apart_cuDriverGetVersion cuDriverGetVersion

int cuDriverGetVersion(int *version)
{
    dummy_called = "cuDriverGetVersion";
    *version = 13050;
    return 0;
}

/* The newest form that the version knows, the thread's own stream where flags ask for it (2) and it exists. */
static void *dummy_find(const char *base, int version, unsigned long long flags)
{
    const struct dummy_form *best = NULL;
    for (const struct dummy_form *form = dummy_forms; form->base; form++) {
        if (strcmp(form->base, base) || form->born > version || (form->per_thread && !(flags & 2)))
            continue;
        if (!best || form->form > best->form || (form->form == best->form && form->per_thread))
            best = form;
    }
    return best ? best->function : NULL;
}

int cuGetProcAddress(const char *base, void **found, int version, unsigned long long flags)
{
    dummy_called = "cuGetProcAddress";
    *found = dummy_find(base, version, flags);
    return *found ? 0 : 500;
}

int cuGetProcAddress_v2(const char *base, void **found, int version, unsigned long long flags, int *status)
{
    dummy_called = "cuGetProcAddress_v2";
    *found = dummy_find(base, version, flags);
    if (status)
        *status = !*found;
    return *found ? 0 : 500;
}
