/* Values on their way between Lua and the core: lists of strings, numbers, failures, wait statuses. See binding.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "binding.h"

#define FAILURE "moonsand.core.failure"

static int failure_tostring(lua_State *L)
{
    lua_getfield(L, 1, "message");
    return 1;
}

void ms_lua_push_failure(lua_State *L, const struct ms_error *error)
{
    char message[PATH_MAX + 512];

    lua_createtable(L, 0, 6);
    lua_pushstring(L, ms_stage_name((int)error->stage));
    lua_setfield(L, -2, "stage");
    lua_pushinteger(L, error->error);
    lua_setfield(L, -2, "errno");
    lua_pushstring(L, ms_errno_name(error->error)); /* NULL pushes nil, which sets nothing */
    lua_setfield(L, -2, "code");
    if (error->path[0] != '\0') {
        lua_pushstring(L, error->path);
        lua_setfield(L, -2, "path");
    }
    if (error->reason[0] != '\0') {
        lua_pushstring(L, error->reason);
        lua_setfield(L, -2, "reason");
    }
    lua_pushstring(L, ms_error_message(error, message, sizeof message));
    lua_setfield(L, -2, "message");
    if (luaL_newmetatable(L, FAILURE)) {
        lua_pushcfunction(L, failure_tostring);
        lua_setfield(L, -2, "__tostring");
    }
    lua_setmetatable(L, -2);
}

int ms_lua_failure(lua_State *L, const struct ms_error *error)
{
    lua_pushnil(L);
    ms_lua_push_failure(L, error);
    return 2;
}

void ms_lua_set_status(lua_State *L, int wait_status)
{
    if (WIFSIGNALED(wait_status)) {
        const char *name = ms_signal_name(WTERMSIG(wait_status));

        if (name != NULL)
            lua_pushstring(L, name);
        else
            lua_pushfstring(L, "SIG%d", WTERMSIG(wait_status)); /* a real-time signal, most likely */
        lua_setfield(L, -2, "signal");
        lua_pushboolean(L, WCOREDUMP(wait_status));
        lua_setfield(L, -2, "core_dumped");
    } else if (WIFEXITED(wait_status)) {
        lua_pushinteger(L, WEXITSTATUS(wait_status));
        lua_setfield(L, -2, "exit_code");
    }
}

const char **ms_lua_vector(lua_State *L, int index, const char *what, struct ms_error *error)
{
    index = lua_absindex(L, index);
    if (!lua_istable(L, index))
        luaL_error(L, "bad %s (a list of strings expected, got %s)", what, luaL_typename(L, index));

    size_t count = (size_t)lua_rawlen(L, index);
    const char **vector = lua_newuserdatauv(L, (count + 1) * sizeof *vector, 0);

    for (size_t i = 0; i < count; i++) {
        size_t size;

        if (lua_rawgeti(L, index, (lua_Integer)i + 1) != LUA_TSTRING)
            luaL_error(L, "bad %s (entry %d is a %s, not a string)", what, (int)i + 1, luaL_typename(L, -1));
        vector[i] = lua_tolstring(L, -1, &size);
        if (strlen(vector[i]) != size) {
            ms_error_set(error, MS_STAGE_ARGUMENTS, EINVAL, NULL, "a NUL byte in an argument or variable");
            lua_pop(L, 1);
            return NULL;
        }
        lua_pop(L, 1);
    }
    vector[count] = NULL;
    return vector;
}

int64_t ms_lua_integer(lua_State *L, int index, const char *what)
{
    int is_integer;
    lua_Integer integer = lua_tointegerx(L, index, &is_integer);

    if (lua_type(L, index) != LUA_TNUMBER)
        luaL_error(L, "bad %s (number expected, got %s)", what, luaL_typename(L, index));
    if (is_integer)
        return integer;

    lua_Number number = ceil(lua_tonumber(L, index));

    if (!(number > -0x1p53 && number < 0x1p53))
        luaL_error(L, "bad %s (%f is out of range)", what, lua_tonumber(L, index));
    return (int64_t)number;
}
