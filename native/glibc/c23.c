/* Since glibc 2.38 headers call the readers of numbers by these names: C23's readers, which know binary numbers too. Nothing of ours is
   written in those, so they are the readers that every glibc has. */
#include <stdarg.h>

long before_strtol(const char *, char **, int) __asm__("strtol");
unsigned long before_strtoul(const char *, char **, int) __asm__("strtoul");
unsigned long long before_strtoull(const char *, char **, int) __asm__("strtoull");
int before_vsscanf(const char *, const char *, va_list) __asm__("__isoc99_vsscanf");

long __isoc23_strtol(const char *text, char **end, int base)
{
    return before_strtol(text, end, base);
}

unsigned long __isoc23_strtoul(const char *text, char **end, int base)
{
    return before_strtoul(text, end, base);
}

unsigned long long __isoc23_strtoull(const char *text, char **end, int base)
{
    return before_strtoull(text, end, base);
}

int __isoc23_sscanf(const char *text, const char *format, ...)
{
    va_list found;

    va_start(found, format);
    int count = before_vsscanf(text, format, found);
    va_end(found);
    return count;
}
