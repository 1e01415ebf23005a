/* What the launcher was told: its command line, and nothing else. */
#ifndef MOONSAND_OPTIONS_H
#define MOONSAND_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum expectation {
    EXPECT_PID_1 = 1 << 0,
    EXPECT_NO_CAPABILITIES = 1 << 1,
    EXPECT_READ_ONLY = 1 << 2,
};

/* A repeated option's values, in the order given. */
struct list {
    const char **items;
    size_t count;
};

struct options {
    bool probe;
    int report_fd; /* -1: none */
    bool report_optional;
    const char *directory;
    bool stdin_null;
    bool terminal;
    bool background;
    struct list read_only;  /* --ro */
    struct list read_write; /* --rw */
    unsigned expectations;  /* enum expectation */
    struct list writable;   /* --writable */
    struct list bound;      /* --bound */
    struct list set;        /* --env */
    struct list unset;      /* --unset */
    char **argv;            /* the command, ends with NULL; NULL with --probe */
};

/* How many pointers the lists may take together. Nothing is allocated: a launcher lives for one command, and the first
 * allocation costs more than all of this. */
size_t options_room(int argc, char **argv);

/* Fills `options` from the command line, its lists in `room`; on anything wrong says so on stderr and returns false. */
bool options_parse(struct options *options, const char **room, int argc, char **argv);

/* The launcher confines: as the Landlock runner, or inside a runner whose work it verifies. */
bool options_confine(const struct options *options);

#endif
