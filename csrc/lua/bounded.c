/* core.bounded: calls a function that is not trusted to end, or to be content with the memory there is.
 *
 * Instructions and time are counted by a hook, memory by an allocator in front of the state's own; both are in place for
 * the call alone. Relies on the state having one allocator for all its coroutines (lua_setallocf(3)), and on the callee
 * having no pcall, no coroutines and no other way to go on after an error: what it is given is the caller's choice.
 * Promises that hook and allocator are as before when it returns. */
#include "binding.h"
#include "clock.h"

enum { INSTRUCTIONS_A_LOOK = 1000 };

/* What one call may use, and has used. */
struct bounds {
    lua_Alloc inner;
    void *inner_data;
    int64_t memory;
    int64_t instructions;
    int64_t deadline;
    const char *exceeded;
};

static void *bounded_alloc(void *data, void *block, size_t old_size, size_t new_size)
{
    struct bounds *bounds = data;
    const int64_t before = block ? (int64_t)old_size : 0; /* without a block, it says what kind of object is wanted */
    const int64_t growth = (int64_t)new_size - before;

    if (growth > 0 && growth > bounds->memory) {
        bounds->exceeded = "memory";
        return NULL;
    }
    void *result = bounds->inner(bounds->inner_data, block, old_size, new_size);
    if (result || new_size == 0) {
        bounds->memory -= growth;
    }
    return result;
}

static void bounded_hook(lua_State *L, lua_Debug *activation)
{
    (void)activation;
    void *data = NULL;
    if (lua_getallocf(L, &data) != bounded_alloc) {
        return;
    }
    struct bounds *bounds = data;
    bounds->instructions -= INSTRUCTIONS_A_LOOK;
    if (bounds->instructions < 0) {
        bounds->exceeded = "instructions";
    } else if (ms_clock() > bounds->deadline) {
        bounds->exceeded = "time";
    } else {
        return;
    }
    luaL_where(L, 0);
    lua_pushfstring(L, "%sstopped", lua_tostring(L, -1));
    lua_error(L);
}

/* core.bounded(instructions, ms, bytes, f, ...) -> true, results... | false, error, "instructions" | "time" | "memory" or
 * nil. */
int ms_lua_bounded(lua_State *L)
{
    struct bounds bounds = {
        .instructions = ms_lua_integer(L, 1, "instructions"),
        .deadline = ms_clock_after(ms_clock(), ms_lua_integer(L, 2, "ms")),
        .memory = ms_lua_integer(L, 3, "bytes"),
    };
    luaL_checktype(L, 4, LUA_TFUNCTION);
    luaL_checkstack(L, 8, NULL);

    const lua_Hook hook = lua_gethook(L);
    const int mask = lua_gethookmask(L);
    const int count = lua_gethookcount(L);
    bounds.inner = lua_getallocf(L, &bounds.inner_data);
    lua_sethook(L, bounded_hook, LUA_MASKCOUNT, INSTRUCTIONS_A_LOOK);
    lua_setallocf(L, bounded_alloc, &bounds);
    const int status = lua_pcall(L, lua_gettop(L) - 4, LUA_MULTRET, 0);
    lua_setallocf(L, bounds.inner, bounds.inner_data);
    lua_sethook(L, hook, mask, count);

    if (status == LUA_OK) {
        lua_pushboolean(L, 1);
        lua_replace(L, 3);
        return lua_gettop(L) - 2;
    }
    lua_pushboolean(L, 0);
    lua_insert(L, -2);
    /* An allocation may have been refused and made after a collection: only an error that came of it counts. */
    if (status == LUA_ERRMEM || (bounds.exceeded && bounds.exceeded[0] != 'm')) {
        lua_pushstring(L, status == LUA_ERRMEM ? "memory" : bounds.exceeded);
    } else {
        lua_pushnil(L);
    }
    return 3;
}
