/* luaopen_moonsand_core: the functions of the module moonsand.core.
 *
 * Relies on the core, and on the launcher lying beside this very file, wherever it was installed. */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "binding.h"
#include "clock.h"
#include "probe.h"

#define VERSION "0.1.0"

extern char **environ;

int luaopen_moonsand_core(lua_State *L);

/*** Run a runner once, bounded in time and output, and say whether it works.
 *
 * @function probe
 * @tparam {string,...} argv as of `spawn`
 * @tparam number timeout_ms positive
 * @tparam[opt] {string,...} env as of `spawn`; default: the host's own
 * @treturn table `ok`: it ended in time, with 0; `exit_code` or `signal`; `timed_out`; `stdout` and `stderr`, the last
 *   bytes it printed; `failure` when it could not even be started
 */
static int core_probe(lua_State *L)
{
    struct ms_error error;

    lua_settop(L, 3);

    const char **argv = ms_lua_vector(L, 1, "argv", &error);
    int64_t timeout_ms = ms_lua_integer(L, 2, "timeout_ms");
    const char *const *envp = (const char *const *)environ;

    luaL_argcheck(L, timeout_ms > 0, 2, "positive number expected");
    if (argv != NULL && argv[0] == NULL)
        return luaL_error(L, "bad argv (it is empty)");
    if (argv != NULL && !lua_isnil(L, 3))
        envp = ms_lua_vector(L, 3, "env", &error);

    /* 8 KiB of text and a path: as an object of Lua, so that an error of memory below leaves nothing behind. */
    struct ms_probe *probe = lua_newuserdatauv(L, sizeof *probe, 0);

    memset(probe, 0, sizeof *probe);
    if (argv == NULL || envp == NULL)
        probe->error = error;
    else
        ms_probe_run(argv, envp, timeout_ms, probe);

    lua_createtable(L, 0, 6);
    lua_pushboolean(L, probe->ok);
    lua_setfield(L, -2, "ok");
    lua_pushboolean(L, probe->timed_out);
    lua_setfield(L, -2, "timed_out");
    lua_pushlstring(L, probe->stdout_text, probe->stdout_size);
    lua_setfield(L, -2, "stdout");
    lua_pushlstring(L, probe->stderr_text, probe->stderr_size);
    lua_setfield(L, -2, "stderr");
    if (probe->have_status)
        ms_lua_set_status(L, probe->wait_status);
    if (!probe->started) {
        ms_lua_push_failure(L, &probe->error);
        lua_setfield(L, -2, "failure");
    }
    return 1;
}

/*** The variables of the host's own environment. A name that is there twice has its first value, as getenv(3) says.
 *
 * @function environ
 * @treturn {[string]=string}
 */
static int core_environ(lua_State *L)
{
    lua_newtable(L);
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');

        if (equals == NULL || equals == *entry)
            continue;
        lua_pushlstring(L, *entry, (size_t)(equals - *entry));
        lua_pushvalue(L, -1);
        if (lua_rawget(L, -3) == LUA_TNIL) {
            lua_pop(L, 1);
            lua_pushstring(L, equals + 1);
            lua_rawset(L, -3);
        } else {
            lua_pop(L, 2);
        }
    }
    return 1;
}

static bool is_program(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

/*** Find a program in a search path, as a shell would, but never through an entry that is not absolute: what a relative
 * one means changes with the working directory, which may be the agent's.
 *
 * @function find_program
 * @tparam string name without a slash
 * @tparam string path entries separated by colons
 * @treturn ?string an absolute path, or nil
 */
static int core_find_program(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    const char *entry = luaL_checkstring(L, 2);

    luaL_argcheck(L, strchr(name, '/') == NULL && *name != '\0', 1, "name without a slash expected");
    for (;;) {
        size_t size = strcspn(entry, ":");

        if (*entry == '/') {
            lua_pushlstring(L, entry, size);
            lua_pushfstring(L, size == 1 ? "%s%s" : "%s/%s", lua_tostring(L, -1), name);
            if (is_program(lua_tostring(L, -1)))
                return 1;
            lua_pop(L, 2);
        }
        if (entry[size] == '\0')
            return 0;
        entry += size + 1;
    }
}

/*** Whose a directory is that we may make entries in. (luaposix could say it too, but loading it costs a command line more
 * than starting the launcher does.)
 *
 * @function writable_directory_owner
 * @tparam string path
 * @treturn ?integer a user id; nil when it is no directory, or not writable for us
 */
static int core_writable_directory_owner(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    struct stat status;

    if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode) || faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) != 0)
        return 0;
    lua_pushinteger(L, (lua_Integer)status.st_uid);
    return 1;
}

/*** The effective user id.
 *
 * @function geteuid
 * @treturn integer
 */
static int core_geteuid(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)geteuid());
    return 1;
}

/*** The launcher: the program of that name beside this module.
 *
 * @function launcher_path
 * @treturn string an absolute path
 */
static int core_launcher_path(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    return 1;
}

/*** The name of a signal.
 *
 * @function signal_name
 * @tparam integer number
 * @treturn ?string `"SIGTERM"`, or nil for a number without a name
 */
static int core_signal_name(lua_State *L)
{
    lua_pushstring(L, ms_signal_name((int)luaL_checkinteger(L, 1)));
    return 1;
}

/*** A clock that only goes forward.
 *
 * @function monotonic_ms
 * @treturn integer
 */
static int core_monotonic_ms(lua_State *L)
{
    lua_pushinteger(L, ms_clock());
    return 1;
}

/* Found once, while a relative package.cpath still means what it meant when the module was loaded. */
static void push_launcher_path(lua_State *L)
{
    Dl_info info;
    char path[PATH_MAX];

    if (dladdr((const void *)(uintptr_t)&luaopen_moonsand_core, &info) == 0 || realpath(info.dli_fname, path) == NULL)
        luaL_error(L, "moonsand.core does not know where it was loaded from");
    *strrchr(path, '/') = '\0';
    lua_pushfstring(L, "%s/moonsand-launch", path);
}

/* "linux", "darwin": so that nobody needs a library to know. */
static void push_platform(lua_State *L)
{
    struct utsname system;

    if (uname(&system) != 0)
        luaL_error(L, "uname: %s", strerror(errno));
    for (char *letter = system.sysname; *letter != '\0'; letter++)
        *letter = (char)tolower((unsigned char)*letter);
    lua_pushstring(L, system.sysname);
}

__attribute__((visibility("default"))) int luaopen_moonsand_core(lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "spawn", ms_lua_spawn },
        { "probe", core_probe },
        { "terminal", ms_lua_terminal },
        { "bounded", ms_lua_bounded },
        { "environ", core_environ },
        { "find_program", core_find_program },
        { "geteuid", core_geteuid },
        { "writable_directory_owner", core_writable_directory_owner },
        { "signal_name", core_signal_name },
        { "monotonic_ms", core_monotonic_ms },
        { NULL, NULL },
    };

    ms_lua_open_process(L);
    ms_lua_open_terminal(L);
    luaL_newlib(L, functions);

    push_launcher_path(L);
    lua_pushcclosure(L, core_launcher_path, 1);
    lua_setfield(L, -2, "launcher_path");
    lua_pushinteger(L, MS_REPORT_FD);
    lua_setfield(L, -2, "REPORT_FD");
    push_platform(L);
    lua_setfield(L, -2, "platform");
    lua_pushliteral(L, VERSION);
    lua_setfield(L, -2, "version");
    return 1;
}
