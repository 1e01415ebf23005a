/* core.terminal: the standard descriptors of this process, for a program that takes its place.
 *
 * Relies on relay.h. The object is the relay's; it holds descriptors until it is closed or collected. */
#include "binding.h"
#include "process.h"
#include "relay.h"

#define TERMINAL "moonsand.core.terminal"

struct handle {
    struct ms_relay *relay; /* NULL once closed */
};

static struct ms_relay *check_relay(lua_State *L)
{
    struct handle *handle = luaL_checkudata(L, 1, TERMINAL);

    if (handle->relay == NULL)
        luaL_error(L, "attempt to use a terminal that was closed");
    return handle->relay;
}

/*** Look at descriptors 0 to 2 of this process, and make what a program gets in their place: a terminal of its own where
 * they are a terminal, pipes where they lead to files.
 *
 * @function terminal
 * @treturn[1] terminal
 * @treturn[2] nil
 * @treturn[2] table the failure: `stage`, `errno`, `code`, `message`
 * @usage
 * local terminal <close> = assert(core.terminal())
 * local program = terminal:program()
 * local process = assert(core.spawn { argv = argv, env = env, report = true, stdio = program.stdio })
 * local relayed = assert(terminal:run(process))
 */
int ms_lua_terminal(lua_State *L)
{
    static const int user[3] = { 0, 1, 2 };
    struct ms_error error;

    struct handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
    handle->relay = NULL;
    luaL_setmetatable(L, TERMINAL);

    handle->relay = ms_relay_open(user, &error);
    if (handle->relay == NULL)
        return ms_lua_failure(L, &error);
    return 1;
}

/*** What the program has to be started with.
 *
 * @function terminal:program
 * @treturn table `stdio`: for `spawn` (without a `0`: stdin is `/dev/null`, for which the launcher has `--stdin-null`);
 *   `stdin_null`; `terminal` and `background`: the launcher's `--terminal` and `--background`
 */
static int terminal_program(lua_State *L)
{
    const struct ms_relay_program *program = ms_relay_program(check_relay(L));

    lua_createtable(L, 0, 4);
    lua_createtable(L, 2, 1);
    for (int i = 0; i < 3; i++) {
        if (program->stdio[i] >= 0) {
            lua_pushinteger(L, program->stdio[i]);
            lua_rawseti(L, -2, i);
        }
    }
    lua_setfield(L, -2, "stdio");
    lua_pushboolean(L, program->stdio[0] < 0);
    lua_setfield(L, -2, "stdin_null");
    lua_pushboolean(L, program->terminal);
    lua_setfield(L, -2, "terminal");
    lua_pushboolean(L, program->background);
    lua_setfield(L, -2, "background");
    return 1;
}

/*** Be in the program's place until it is over: carry bytes, keys, signals and stops between it and the user.
 *
 * May be called again for another process, as long as the first one's command was never started.
 * @function terminal:run
 * @tparam process process as of `spawn`
 * @treturn[1] table `signal`: the name of a signal that asked this process to end, and so ended the program;
 *   `output_failure`: what the program printed could not be written (`path` is `"stdout"` or `"stderr"`)
 * @treturn[2] nil
 * @treturn[2] table the failure: too many descriptors. The process runs, and nothing was carried.
 */
static int terminal_run(lua_State *L)
{
    struct ms_error error;
    struct ms_relayed relayed;
    struct ms_relay *relay = check_relay(L);
    struct ms_process *process = ms_lua_usable_process(L, 2, &error);

    if (process == NULL || ms_relay_run(relay, process, &relayed, &error) != 0)
        return ms_lua_failure(L, &error);
    lua_createtable(L, 0, 2);
    if (relayed.signal != 0) {
        lua_pushstring(L, ms_signal_name(relayed.signal));
        lua_setfield(L, -2, "signal");
    }
    if (relayed.output_lost) {
        ms_lua_push_failure(L, &relayed.output);
        lua_setfield(L, -2, "output_failure");
    }
    return 1;
}

/*** Give the descriptors up. Also done by `<close>` and by collection.
 *
 * @function terminal:close
 */
static int terminal_close(lua_State *L)
{
    struct handle *handle = luaL_checkudata(L, 1, TERMINAL);

    if (handle->relay != NULL)
        ms_relay_close(handle->relay);
    handle->relay = NULL;
    return 0;
}

void ms_lua_open_terminal(lua_State *L)
{
    static const luaL_Reg methods[] = {
        { "program", terminal_program }, { "run", terminal_run },    { "close", terminal_close },
        { "__close", terminal_close },   { "__gc", terminal_close }, { NULL, NULL },
    };

    luaL_newmetatable(L, TERMINAL);
    luaL_setfuncs(L, methods, 0);
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}
