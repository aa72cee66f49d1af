/* The first process of a job's container:

       gpupool-init [--] COMMAND [ARG...]

   It starts the command, passes signals on to it, collects orphans, and ends as the command ended. A command that is
   process 1 itself ignores every signal that it has no handler for, so a stop would always take its whole grace; and it
   would have to collect processes that it never started.

   Exit codes are a shell's: the command's own, 128 + N after signal N, 127 where the command is not found, 126 where it
   cannot be executed. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127, BY_SIGNAL = 128 };

static int fail(const char *what)
{
    int error = errno;

    fprintf(stderr, "gpupool: cannot run '%s': %s\n", what, strerror(error));
    return error == ENOENT || error == ENOTDIR ? NOT_FOUND : NOT_EXECUTABLE;
}

/* The command leads a process group, the foreground one of its terminal: Ctrl-C reaches it and not us. */
static int run_command(char **command, const sigset_t *before)
{
    setpgid(0, 0);
    /* SIGTTOU is blocked still, so taking the terminal does not stop us. */
    if (isatty(STDIN_FILENO))
        (void)tcsetpgrp(STDIN_FILENO, getpid());
    sigprocmask(SIG_SETMASK, before, NULL);
    execvp(command[0], command);
    return fail(command[0]);
}

/* True when the command itself has ended. */
static int collect(pid_t command, int *status)
{
    int one, ended = 0;
    pid_t pid;

    while ((pid = waitpid(-1, &one, WNOHANG)) > 0)
        if (pid == command) {
            *status = one;
            ended = 1;
        }
    return ended;
}

static int supervise(pid_t command, const sigset_t *all)
{
    siginfo_t info;
    int status = 0;

    for (;;) {
        if (sigwaitinfo(all, &info) < 0)
            continue; /* EINTR: stopped and continued */
        if (info.si_signo == SIGCHLD) {
            if (collect(command, &status))
                break;
        } else if (info.si_signo != SIGTTOU && info.si_signo != SIGTTIN)
            /* What stops the command is sent to all of its group, as a terminal does. */
            (void)kill(info.si_signo == SIGTSTP ? -command : command, info.si_signo);
    }
    return WIFSIGNALED(status) ? BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(int count, char **words)
{
    char **command = words + 1;
    sigset_t all, before;

    if (count > 1 && strcmp(words[1], "--") == 0)
        command++;
    if (!*command) {
        fputs("usage: gpupool-init [--] COMMAND [ARG...]\n", stderr);
        return NOT_EXECUTABLE;
    }
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    if (child < 0)
        return fail("fork");
    if (child == 0)
        _exit(run_command(command, &before));
    return supervise(child, &all);
}
