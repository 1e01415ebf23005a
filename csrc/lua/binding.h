/* What the files of the binding share: moonsand.core as Lua sees it.
 *
 * Relies on the core (csrc/core) for everything that happens, and on Lua 5.4. The binding is thin: it turns tables into
 * options, facts into tables and errors into `nil, failure`, and decides nothing. */
#ifndef MOONSAND_BINDING_H
#define MOONSAND_BINDING_H

#include <lauxlib.h>
#include <lua.h>
#include <stdint.h>

#include "error.h"

/* Pushes nil and the failure as a table { stage, errno, code, path, reason, message }. Returns 2. */
int ms_lua_failure(lua_State *L, const struct ms_error *error);

/* Pushes that table alone. */
void ms_lua_push_failure(lua_State *L, const struct ms_error *error);

/* Sets exit_code, or signal and core_dumped, of the table on top of the stack, from a wait status. */
void ms_lua_set_status(lua_State *L, int wait_status);

/* A list of strings at `index`, as a vector that ends in NULL. Raises (naming `what`) when it is not one; with a NUL byte
 * in a string, fills `error` and returns NULL. Pushes one value, which keeps the vector alive; the strings live as long
 * as the table is not changed. */
const char **ms_lua_vector(lua_State *L, int index, const char *what, struct ms_error *error);

/* Integer of a field or argument: a number of Lua that may be a float, as times and sizes computed there often are. */
int64_t ms_lua_integer(lua_State *L, int index, const char *what);

/* Registers the metatable of processes. */
void ms_lua_open_process(lua_State *L);

/* core.spawn */
int ms_lua_spawn(lua_State *L);

/* The process at `index`; NULL with `error` filled when this host was forked from the one that started it. Raises when it
 * is none, or was closed. */
struct ms_process;
struct ms_process *ms_lua_usable_process(lua_State *L, int index, struct ms_error *error);

/* Registers the metatable of terminals. */
void ms_lua_open_terminal(lua_State *L);

/* core.terminal */
int ms_lua_terminal(lua_State *L);

/* core.bounded */
int ms_lua_bounded(lua_State *L);

#endif
