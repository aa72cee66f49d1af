/* Two questions before a container begins: whether a fence can hold in its image, and which cgroups it is in.

       gpupool-hook CODE GLIBC < STATE
       gpupool-hook --report SOCKET ALLOCATION [CODE] < STATE

   A runtime hook (opencontainers/runtime-spec, config.md "createRuntime"): the runtime hands over the container's state,
   and starts no container when this ends with anything but 0; what is said here, after the CODE of a refusal, is then in
   the kubelet's event. GLIBC is the oldest version that the libraries of the fence can do with.

   The fence takes the names of the driver's libraries, so it is there for every program that can load a library for
   glibc. Programs of musl cannot; of those without any loader nothing can load the driver either, and they are let be.

   With --report the agent at SOCKET learns the cgroups, so that it can set limits on them before the program begins. The
   container starts without that as well: the fence holds it, and the agent reports what does not. With a CODE it does
   not start: its claim demands these limits. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bundle.h"
#include "image.h"
#include "report.h"

#define INSTEAD "; use an image with glibc (Debian, Ubuntu, UBI), or ask for a whole card"

__attribute__((format(printf, 2, 3))) static int refuse(const char *code, const char *format, ...)
{
    va_list words;

    fprintf(stderr, "%s: ", code);
    va_start(words, format);
    vfprintf(stderr, format, words);
    va_end(words);
    fputc('\n', stderr);
    return 1;
}

static int judge(const char *code, struct version needed)
{
    struct version found;

    if (!image_glibc(&found))
        return image_has_musl()
            ? refuse(code, "the image has musl and no glibc, and the fence of a share is built for glibc" INSTEAD)
            : 0;
    return version_before(found, needed)
        ? refuse(code, "the image has glibc %u.%u, and the fence of a share needs %u.%u or newer" INSTEAD, found.major,
                 found.minor, needed.major, needed.minor)
        : 0;
}

/* From then on a symbolic link of the image, absolute or not, leads nowhere but into the image. */
static bool enter(const char *code)
{
    struct text root = {0};
    const char *problem = bundle_root(STDIN_FILENO, &root);
    bool inside = !problem && chroot(text_c(&root)) == 0 && chdir("/") == 0;

    if (problem)
        refuse(code, "the image cannot be looked at: %s", problem);
    else if (!inside)
        refuse(code, "the image cannot be looked at: %s: %s", text_c(&root), strerror(errno));
    text_free(&root);
    return inside;
}

static int report(const char *socket_path, const char *allocation, const char *code)
{
    int64_t pid = bundle_pid(STDIN_FILENO);
    const char *problem = pid > 0 ? report_container(socket_path, allocation, pid) : "its state names no process";

    if (problem && code)
        return refuse(code, "the claim demands isolation hard, and no memory limit of the driver is set: %s", problem);
    if (problem)
        fprintf(stderr, "gpupool sets no memory limit of the driver: %s\n", problem);
    return 0;
}

int main(int count, char **words)
{
    struct version needed;

    if ((count == 4 || count == 5) && !strcmp(words[1], "--report"))
        return report(words[2], words[3], count == 5 ? words[4] : NULL);
    if (count != 3 || !version_read(words[2], &needed)) {
        fputs("usage: gpupool-hook CODE GLIBC < STATE\n"
              "       gpupool-hook --report SOCKET ALLOCATION [CODE] < STATE\n",
              stderr);
        return 2;
    }
    return enter(words[1]) ? judge(words[1], needed) : 1;
}
