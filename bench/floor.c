/* The floor of every latency figure: starts a program and waits for it, COUNT times, with nothing around it (posix_spawn
 * and waitpid, no pipe), and prints what each took, in microseconds, a line each.
 *
 *     floor COUNT PROGRAM [ARGUMENT]... */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("usage: floor COUNT PROGRAM [ARGUMENT]...\n", stderr);
        return 2;
    }
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    for (int i = 0; i < atoi(argv[1]); i++) {
        double begun = microseconds();
        pid_t pid;
        int status, error = posix_spawn(&pid, argv[2], &quiet, NULL, &argv[2], environ);
        if (error != 0) {
            fprintf(stderr, "floor: %s: %s\n", argv[2], strerror(error));
            return 1;
        }
        waitpid(pid, &status, 0);
        if (status != 0) {
            fprintf(stderr, "floor: %s ended with wait status %d\n", argv[2], status);
            return 1;
        }
        printf("%.1f\n", microseconds() - begun);
    }
    return 0;
}
