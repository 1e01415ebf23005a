/* Pure: two lists and an array in, an array out. */
#include "environment.h"

#include <string.h>

static size_t name_length(const char *variable)
{
    return strcspn(variable, "=");
}

/* A later option of the same name, or an --unset, replaces the variable. */
static bool replaced(const struct options *options, const char *variable, size_t from)
{
    size_t length = name_length(variable);
    for (size_t i = from; i < options->set.count; i++)
        if (name_length(options->set.items[i]) == length && strncmp(options->set.items[i], variable, length) == 0)
            return true;
    for (size_t i = 0; i < options->unset.count; i++)
        if (strlen(options->unset.items[i]) == length && strncmp(options->unset.items[i], variable, length) == 0)
            return true;
    return false;
}

size_t environment_room(const struct options *options, char **environment)
{
    size_t count = 0;

    while (environment[count] != NULL)
        count++;
    return count + options->set.count + 1;
}

void environment_for_command(const struct options *options, char **environment, char **result)
{
    size_t n = 0;

    for (size_t i = 0; environment[i] != NULL; i++)
        if (!replaced(options, environment[i], 0))
            result[n++] = environment[i];
    for (size_t i = 0; i < options->set.count; i++)
        if (!replaced(options, options->set.items[i], i + 1))
            result[n++] = (char *)options->set.items[i];
    result[n] = NULL;
}
