/* stat and fstat are in glibc since 2.33; before, every program carried its own, and so does what is built with this.

   sys/stat.h is not read: an older one defines them by itself. On these kinds of machine the kernel's struct is the library's. */
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

int stat(const char *path, struct stat *about)
{
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, about, 0);
}

int fstat(int file, struct stat *about)
{
    return (int)syscall(SYS_fstat, file, about);
}

int stat64(const char *path, struct stat *about) __attribute__((alias("stat")));
int fstat64(int file, struct stat *about) __attribute__((alias("fstat")));
