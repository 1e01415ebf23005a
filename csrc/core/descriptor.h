/* What a descriptor that was inherited leads to. Implemented by descriptor_linux.c and descriptor_darwin.c. */
#ifndef MOONSAND_DESCRIPTOR_H
#define MOONSAND_DESCRIPTOR_H

#include <stdbool.h>

/* Is it an anonymous pipe or a socket? Then there is no file of the host behind it that could be opened again or changed. */
bool ms_descriptor_is_anonymous(int fd);

#endif
