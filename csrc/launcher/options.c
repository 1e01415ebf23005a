/* The command line of moonsand-launch, read strictly: what is not understood ends it, before anything is done.
 *
 * The reader is a table, so that --help, the parser and the manual cannot drift apart. */
#include "options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum option {
    OPTION_PROBE,
    OPTION_HELP,
    OPTION_REPORT_FD,
    OPTION_REPORT_OPTIONAL,
    OPTION_CHDIR,
    OPTION_STDIN_NULL,
    OPTION_TERMINAL,
    OPTION_BACKGROUND,
    OPTION_RO,
    OPTION_RW,
    OPTION_EXPECT,
    OPTION_WRITABLE,
    OPTION_BOUND,
    OPTION_ENV,
    OPTION_UNSET,
};

static const struct {
    const char *name;
    const char *value; /* NULL: takes none */
    const char *help;
} table[] = {
    [OPTION_PROBE] = { "--probe", NULL, "enforce a ruleset, say how complete Landlock is here, and exit" },
    [OPTION_HELP] = { "--help", NULL, "this text" },
    [OPTION_REPORT_FD] = { "--report-fd", "N", "report on descriptor N, a connected stream socket" },
    [OPTION_REPORT_OPTIONAL] = { "--report-optional", NULL, "do without the report where the descriptor is closed" },
    [OPTION_CHDIR] = { "--chdir", "DIR", "the command's working directory" },
    [OPTION_STDIN_NULL] = { "--stdin-null", NULL, "the command's stdin is /dev/null, opened inside the confinement" },
    [OPTION_TERMINAL] = { "--terminal", NULL, "the terminal among descriptors 0 to 2 becomes the command's own" },
    [OPTION_BACKGROUND] = { "--background", NULL, "with --terminal: the command starts in the terminal's background" },
    [OPTION_RO] = { "--ro", "PATH", "Landlock: may be read and executed, and what is below it" },
    [OPTION_RW] = { "--rw", "PATH", "Landlock: may be changed too, and what is below it" },
    [OPTION_EXPECT] = { "--expect", "FACT", "refuse unless it is so: pid-1, no-capabilities, read-only" },
    [OPTION_WRITABLE] = { "--writable", "PATH", "with --expect read-only: the mounts from here down may be writable" },
    [OPTION_BOUND] = { "--bound", "PATH", "the same for a mount that must show what lies at that very path" },
    [OPTION_ENV] = { "--env", "NAME=VALUE", "set in the command's environment" },
    [OPTION_UNSET] = { "--unset", "NAME", "absent from the command's environment" },
};

enum { OPTION_COUNT = sizeof table / sizeof table[0], LIST_COUNT = 6 };

static void usage(FILE *to)
{
    fputs("usage: moonsand-launch [OPTION]... -- PROGRAM [ARGUMENT]...\n"
          "       moonsand-launch --probe\n\n"
          "Runs PROGRAM (a path) as the root of a process tree that ends with it, confined as told.\n\n",
          to);
    for (int i = 0; i < OPTION_COUNT; i++)
        fprintf(to, "  %-17s %-11s %s\n", table[i].name, table[i].value ? table[i].value : "", table[i].help);
}

static bool refuse(const char *what, const char *why)
{
    fprintf(stderr, "moonsand-launch: %s: %s\n", what, why);
    return false;
}

static bool append(struct list *list, const char *item)
{
    list->items[list->count++] = item;
    return true;
}

static bool parse_descriptor(const char *text, int *descriptor)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end != '\0' || n < 3 || n > INT_MAX)
        return refuse("--report-fd", "wants a descriptor from 3 on");
    *descriptor = (int)n;
    return true;
}

static bool parse_expectation(const char *text, unsigned *expectations)
{
    if (strcmp(text, "pid-1") == 0)
        *expectations |= EXPECT_PID_1;
    else if (strcmp(text, "no-capabilities") == 0)
        *expectations |= EXPECT_NO_CAPABILITIES;
    else if (strcmp(text, "read-only") == 0)
        *expectations |= EXPECT_READ_ONLY;
    else
        return refuse("--expect", "wants pid-1, no-capabilities or read-only");
    return true;
}

static bool parse_absolute(struct list *list, const char *path)
{
    if (path[0] != '/')
        return refuse(path[0] ? path : "(empty)", "must be an absolute path");
    return append(list, path);
}

static bool apply(struct options *options, enum option option, const char *value)
{
    switch (option) {
    case OPTION_PROBE:
        options->probe = true;
        return true;
    case OPTION_HELP:
        usage(stdout);
        exit(0);
    case OPTION_REPORT_FD:
        return parse_descriptor(value, &options->report_fd);
    case OPTION_REPORT_OPTIONAL:
        options->report_optional = true;
        return true;
    case OPTION_CHDIR:
        options->directory = value;
        return true;
    case OPTION_STDIN_NULL:
        options->stdin_null = true;
        return true;
    case OPTION_TERMINAL:
        options->terminal = true;
        return true;
    case OPTION_BACKGROUND:
        options->background = true;
        return true;
    case OPTION_RO:
        return parse_absolute(&options->read_only, value);
    case OPTION_RW:
        return parse_absolute(&options->read_write, value);
    case OPTION_EXPECT:
        return parse_expectation(value, &options->expectations);
    case OPTION_WRITABLE:
        return parse_absolute(&options->writable, value);
    case OPTION_BOUND:
        return parse_absolute(&options->bound, value);
    case OPTION_ENV:
        if (strchr(value, '=') == NULL || value[0] == '=')
            return refuse("--env", "wants NAME=VALUE");
        return append(&options->set, value);
    case OPTION_UNSET:
        if (strchr(value, '=') != NULL || value[0] == '\0')
            return refuse("--unset", "wants a NAME");
        return append(&options->unset, value);
    }
    return false;
}

static size_t own_words(int argc, char **argv)
{
    size_t words = 0;

    while (words < (size_t)argc && strcmp(argv[words], "--") != 0)
        words++;
    return words;
}

size_t options_room(int argc, char **argv)
{
    return LIST_COUNT * own_words(argc, argv) + 1;
}

bool options_parse(struct options *options, const char **room, int argc, char **argv)
{
    size_t most = own_words(argc, argv);

    *options = (struct options){ .report_fd = -1 };
    struct list *lists[LIST_COUNT] = { &options->read_only, &options->read_write, &options->writable,
                                       &options->bound,     &options->set,        &options->unset };
    for (size_t list = 0; list < LIST_COUNT; list++)
        lists[list]->items = room + list * most;
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        int found = 0;
        while (found < OPTION_COUNT && strcmp(argv[i], table[found].name) != 0)
            found++;
        if (found == OPTION_COUNT)
            return refuse(argv[i], "unknown option (the command goes after `--`)");
        const char *value = "";
        if (table[found].value != NULL) {
            if (i + 1 == argc)
                return refuse(argv[i], "wants a value");
            value = argv[++i];
        }
        if (!apply(options, (enum option)found, value))
            return false;
    }
    if (options->probe)
        return i == argc ? true : refuse("--probe", "takes no command");
    if (i >= argc - 1)
        return refuse("arguments", "no command after `--`");
    options->argv = &argv[i + 1];
    if (strchr(options->argv[0], '/') == NULL)
        return refuse(options->argv[0], "the program must be a path: nothing is searched for");
    return true;
}

bool options_confine(const struct options *options)
{
    return options->read_only.count > 0 || options->read_write.count > 0 || options->expectations != 0;
}
