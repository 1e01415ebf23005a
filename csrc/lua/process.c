/* core.spawn and the userdata it returns: one running command.
 *
 * Relies on process.h, whose functions are thread-safe and outlive this object: __gc lets go of a command without waiting,
 * and the supervisor kills and reaps it. Promises that no wait keeps a signal handler of the host, or Lua's own interrupt,
 * from being run: every wait ends when a signal came, and the loop around it is in Lua. */
#include <errno.h>
#include <string.h>

#include "binding.h"
#include "process.h"
#include "supervisor.h"

#define PROCESS "moonsand.core.process"

/* A wait that no signal ends comes back to Lua this often. A signal may arrive between Lua's last look at its hooks and
 * the system call that would notice it. */
#define SLICE_MS 250

struct handle {
    struct ms_process *process; /* NULL once released */
};

/* --- options ------------------------------------------------------------------------------------------------------ */

static int64_t number_field(lua_State *L, int table, const char *name)
{
    int64_t number = 0;

    if (lua_getfield(L, table, name) != LUA_TNIL) {
        number = ms_lua_integer(L, -1, name);
        if (number < 0)
            luaL_error(L, "bad %s (%I is negative)", name, (LUAI_UACINT)number);
    }
    lua_pop(L, 1);
    return number;
}

static bool boolean_field(lua_State *L, int table, const char *name)
{
    lua_getfield(L, table, name);
    bool value = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return value;
}

/* NULL when there is none. The string is the table's. */
static const char *string_field(lua_State *L, int table, const char *name, size_t *size)
{
    const char *string = NULL;

    switch (lua_getfield(L, table, name)) {
    case LUA_TNIL:
        break;
    case LUA_TSTRING:
        string = lua_tolstring(L, -1, size);
        break;
    default:
        luaL_error(L, "bad %s (string expected, got %s)", name, luaL_typename(L, -1));
    }
    lua_pop(L, 1);
    return string;
}

/* A path in a field; false (and `error`) when it has a NUL byte in it. */
static bool path_field(lua_State *L, int table, const char *name, const char **path, struct ms_error *error)
{
    size_t size = 0;

    *path = string_field(L, table, name, &size);
    if (*path == NULL || strlen(*path) == size)
        return true;
    ms_error_set(error, MS_STAGE_ARGUMENTS, EINVAL, *path, "a NUL byte in a path");
    return false;
}

static void stdio_field(lua_State *L, int table, int stdio[3])
{
    for (int i = 0; i < 3; i++)
        stdio[i] = -1;
    if (lua_getfield(L, table, "stdio") != LUA_TNIL) {
        if (!lua_istable(L, -1))
            luaL_error(L, "bad stdio (table expected, got %s)", luaL_typename(L, -1));
        for (int i = 0; i < 3; i++) {
            if (lua_rawgeti(L, -1, i) != LUA_TNIL) {
                int64_t descriptor = ms_lua_integer(L, -1, "stdio");

                if (descriptor < 0 || descriptor > INT_MAX)
                    luaL_error(L, "bad stdio (%I is not a descriptor)", (LUAI_UACINT)descriptor);
                stdio[i] = (int)descriptor;
            }
            lua_pop(L, 1);
        }
    }
    lua_pop(L, 1);
}

/*** Start one command under the supervisor.
 *
 * Nothing in `argv` or `env` is interpreted. Times are in ms, sizes in bytes.
 * @function spawn
 * @tparam table options
 * @tparam {string,...} options.argv the exact argument vector; `argv[1]` is a path with a slash in it
 * @tparam {string,...} options.env the exact environment, as `NAME=VALUE`
 * @tparam[opt] string options.cwd the working directory; default: the host's
 * @tparam[opt] string options.input what its stdin reads, through a pipe; default: `/dev/null`
 * @tparam[opt] {[integer]=integer} options.stdio descriptors to pass through as 0, 1 or 2 instead
 * @tparam[opt] boolean options.report the command is started by the launcher, which reports at `REPORT_FD`
 * @tparam[opt] boolean options.report_optional with `report`: a runner that closes it is no failure
 * @tparam[opt=0] integer options.max_output_bytes how much of the end of each stream is kept in memory
 * @tparam[opt=0] integer options.max_spill_bytes how long a stream may be that goes to a spill file; 0: none
 * @tparam[opt] string options.spill_dir the directory that spill directories are made in; default: no spill
 * @tparam[opt] boolean options.keep_spill the spill files stay for a day
 * @tparam[opt=0] integer options.timeout_ms the deadline; 0: none
 * @tparam[opt=0] integer options.grace_ms between SIGTERM and SIGKILL
 * @tparam[opt=0] integer options.confine_timeout_ms how long the confinement may take; 0: any time
 * @treturn[1] process
 * @treturn[2] nil
 * @treturn[2] table the failure: `stage`, `errno`, `code`, `path`, `message`. Nothing was started.
 * @see execve(2)
 */
int ms_lua_spawn(lua_State *L)
{
    struct ms_process_options options = { 0 };
    struct ms_error error;
    int64_t output;

    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);

    lua_getfield(L, 1, "argv");                         /* 2 */
    options.argv = ms_lua_vector(L, 2, "argv", &error); /* 3 */
    if (options.argv == NULL)
        return ms_lua_failure(L, &error);
    if (options.argv[0] == NULL)
        return luaL_error(L, "bad argv (it is empty)");
    lua_getfield(L, 1, "env");                         /* 4 */
    options.envp = ms_lua_vector(L, 4, "env", &error); /* 5 */
    if (options.envp == NULL)
        return ms_lua_failure(L, &error);

    if (!path_field(L, 1, "cwd", &options.cwd, &error) || !path_field(L, 1, "spill_dir", &options.spill_base, &error))
        return ms_lua_failure(L, &error);
    options.input = string_field(L, 1, "input", &options.input_size);
    stdio_field(L, 1, options.stdio);
    options.report = boolean_field(L, 1, "report");
    options.report_optional = boolean_field(L, 1, "report_optional");
    options.keep_spill = boolean_field(L, 1, "keep_spill");
    output = number_field(L, 1, "max_output_bytes");
    options.max_output_bytes = (uint64_t)output > SIZE_MAX / 2 ? SIZE_MAX / 2 : (size_t)output;
    options.max_spill_bytes = (uint64_t)number_field(L, 1, "max_spill_bytes");
    options.timeout_ms = number_field(L, 1, "timeout_ms");
    options.grace_ms = number_field(L, 1, "grace_ms");
    options.confine_timeout_ms = number_field(L, 1, "confine_timeout_ms");

    /* The object comes first: once a process runs, nothing here may raise. */
    struct handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
    handle->process = NULL;
    luaL_setmetatable(L, PROCESS);

    handle->process = ms_process_start(&options, &error);
    if (handle->process == NULL)
        return ms_lua_failure(L, &error);
    return 1;
}

/* --- the object --------------------------------------------------------------------------------------------------- */

static struct ms_process *check_process(lua_State *L, int index)
{
    struct handle *handle = luaL_checkudata(L, index, PROCESS);

    if (handle->process == NULL)
        luaL_error(L, "attempt to use a process that was closed");
    return handle->process;
}

struct ms_process *ms_lua_usable_process(lua_State *L, int index, struct ms_error *error)
{
    struct ms_process *process = check_process(L, index);

    return ms_supervisor_usable(error) ? process : NULL;
}

/* The standalone interpreter and luaposix answer a signal with a hook on the main coroutine. A wait in another one would
 * not see it, and Ctrl-C would be without effect: so the hook is carried over to where Lua is running. */
static void carry_hook_over(lua_State *L)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    lua_State *main = lua_tothread(L, -1);
    lua_pop(L, 1);

    if (main != NULL && main != L && lua_gethook(main) != NULL && lua_gethook(L) == NULL)
        lua_sethook(L, lua_gethook(main), lua_gethookmask(main), lua_gethookcount(main));
}

/*** Wait until the command is over.
 *
 * Comes back early, with `"interrupted"`, when a signal came, and now and then without one: call it in a loop.
 * @function process:wait
 * @tparam[opt] number ms at most so long; default: for ever
 * @tparam[opt] boolean output also come back when there is new output
 * @treturn[1] string `"settled"`, `"timeout"`, `"output"` or `"interrupted"`
 * @treturn[2] nil
 * @treturn[2] table the failure: the host was forked, or is out of descriptors
 */
static int process_wait(lua_State *L)
{
    static const char *const words[] = {
        [MS_WAITED_SETTLED] = "settled",
        [MS_WAITED_TIMEOUT] = "timeout",
        [MS_WAITED_OUTPUT] = "output",
        [MS_WAITED_INTERRUPTED] = "interrupted",
    };
    struct ms_error error;
    struct ms_process *process = ms_lua_usable_process(L, 1, &error);
    int64_t ms = lua_isnoneornil(L, 2) ? -1 : ms_lua_integer(L, 2, "ms");
    bool sliced = ms < 0 || ms > SLICE_MS;

    if (process == NULL)
        return ms_lua_failure(L, &error);

    enum ms_waited waited = ms_process_wait(process, sliced ? SLICE_MS : ms, lua_toboolean(L, 3));

    if (waited == MS_WAITED_FAILED) {
        ms_error_set(&error, MS_STAGE_SUPERVISOR, errno, NULL, NULL);
        return ms_lua_failure(L, &error);
    }
    if (waited == MS_WAITED_TIMEOUT && sliced)
        waited = MS_WAITED_INTERRUPTED;
    if (waited == MS_WAITED_INTERRUPTED)
        carry_hook_over(L);
    lua_pushstring(L, words[waited]);
    return 1;
}

static void set_boolean(lua_State *L, const char *name, bool value)
{
    lua_pushboolean(L, value);
    lua_setfield(L, -2, name);
}

static void set_integer(lua_State *L, const char *name, int64_t value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

/* A failure that the launcher reported: its words are made here, as they would be for one of the core's own. */
static void set_failure(lua_State *L, const char *name, int stage, int number, const char *reason)
{
    struct ms_error error;

    ms_error_set(&error, (enum ms_stage)stage, number, NULL, reason);
    ms_lua_push_failure(L, &error);
    lua_setfield(L, -2, name);
}

static void set_gaps(lua_State *L, uint32_t gaps)
{
    static const struct {
        uint32_t flag;
        const char *name;
    } names[] = {
        { MS_GAP_TRUNCATE, "truncate" },     { MS_GAP_DEVICE_IOCTL, "device-ioctl" }, { MS_GAP_METADATA, "metadata" },
        { MS_GAP_LATE_MOUNT, "late-mount" }, { MS_GAP_UNCHECKED, "unchecked" },
    };
    lua_Integer count = 0;

    lua_newtable(L);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (gaps & names[i].flag) {
            lua_pushstring(L, names[i].name);
            lua_rawseti(L, -2, ++count);
            gaps &= ~names[i].flag;
        }
    }
    if (gaps != 0) { /* a flag this binding has no word for is a gap all the same */
        lua_pushfstring(L, "gap-%d", (int)gaps);
        lua_rawseti(L, -2, ++count);
    }
    lua_setfield(L, -2, "gaps");
}

static void set_stream(lua_State *L, struct ms_process *process, enum ms_stream stream, const char *name,
                       const struct ms_stream_facts *facts)
{
    static const char *const states[] = {
        [MS_SPILL_NOT_NEEDED] = "not needed", [MS_SPILL_COMPLETE] = "complete", [MS_SPILL_NONE] = "none",
        [MS_SPILL_TOO_LARGE] = "too large",   [MS_SPILL_FAILED] = "failed",
    };
    char path[PATH_MAX];

    lua_createtable(L, 0, 5);
    set_integer(L, "bytes", (int64_t)facts->bytes);
    set_boolean(L, "truncated", facts->truncated);
    lua_pushstring(L, states[facts->spill_state]);
    lua_setfield(L, -2, "spill");
    if (facts->spill_state == MS_SPILL_COMPLETE && ms_process_spill_path(process, stream, path, sizeof path) > 0) {
        lua_pushstring(L, path);
        lua_setfield(L, -2, "spill_path");
    }
    if (facts->spill_state == MS_SPILL_FAILED) {
        lua_pushstring(L, ms_errno_name(facts->spill_error));
        lua_setfield(L, -2, "spill_error");
    }
    lua_setfield(L, -2, name);
}

/*** What is known about the command now.
 *
 * @function process:status
 * @treturn[1] table `state` is `"starting"`, `"running"` or `"settled"`; `pid` (of what was spawned); `duration_ms`;
 *   `confined`, and once it is true `gaps` (a list of words, empty when every file effect is covered) and `landlock_abi`;
 *   `runner_failure` (nothing ran), with `runner_exit_code` or `runner_signal` where the runner's own end is known;
 *   `start_failure` (confined, but the command could not be started); how it ended: `exit_code`, or `signal` and
 *   `core_dumped`, or `status_lost` (somebody else reaped it); `report_lost` (the launcher was killed, so that is its own
 *   end); `timed_out` or `aborted`; `leftovers`, the processes stopped after its end; `stops` and `stop_signal`;
 *   `stdout` and `stderr`, each `{ bytes, truncated, spill, spill_path?, spill_error? }`, `spill` being `"not needed"`,
 *   `"complete"`, `"none"`, `"too large"` or `"failed"`
 * @treturn[2] nil
 * @treturn[2] table the failure: the host was forked
 */
static int process_status(lua_State *L)
{
    static const char *const states[] = {
        [MS_STARTING] = "starting",
        [MS_RUNNING] = "running",
        [MS_SETTLED] = "settled",
    };
    struct ms_error error;
    struct ms_process *process = ms_lua_usable_process(L, 1, &error);
    struct ms_facts facts;

    if (process == NULL)
        return ms_lua_failure(L, &error);
    ms_process_facts(process, &facts);

    lua_createtable(L, 0, 20);
    lua_pushstring(L, states[facts.state]);
    lua_setfield(L, -2, "state");
    set_integer(L, "pid", facts.pid);
    set_integer(L, "duration_ms", facts.duration_ms);
    set_boolean(L, "confined", facts.confined);
    if (facts.confined) {
        set_gaps(L, facts.gaps);
        set_integer(L, "landlock_abi", facts.landlock_abi);
    }
    if (facts.runner_failed)
        set_failure(L, "runner_failure", facts.runner_stage, facts.runner_error,
                    facts.runner_stage == MS_STAGE_NONE ? "it ended without a report" : NULL);
    if (facts.have_runner_status) {
        lua_newtable(L);
        ms_lua_set_status(L, facts.runner_status);
        lua_getfield(L, -1, "exit_code");
        lua_setfield(L, -3, "runner_exit_code");
        lua_getfield(L, -1, "signal");
        lua_setfield(L, -3, "runner_signal");
        lua_pop(L, 1);
    }
    if (facts.start_failed)
        set_failure(L, "start_failure", facts.start_stage, facts.start_error, NULL);
    if (facts.have_status)
        ms_lua_set_status(L, facts.wait_status);
    set_boolean(L, "status_lost", facts.status_lost);
    set_boolean(L, "report_lost", facts.report_lost);
    set_boolean(L, "timed_out", facts.timed_out);
    set_boolean(L, "aborted", facts.aborted);
    set_integer(L, "leftovers", facts.leftovers);
    if (facts.stops > 0) {
        set_integer(L, "stops", facts.stops);
        set_integer(L, "stop_signal", facts.stop_signal);
    }
    set_stream(L, process, MS_STDOUT, "stdout", &facts.stream[MS_STDOUT]);
    set_stream(L, process, MS_STDERR, "stderr", &facts.stream[MS_STDERR]);
    return 1;
}

/*** Read a stream from an offset on. Consumes nothing: the same bytes can be read again while memory holds them.
 *
 * @function process:read
 * @tparam string stream `"stdout"` or `"stderr"`
 * @tparam[opt=0] integer offset counted from the stream's first byte
 * @tparam[opt] integer max at most so many bytes; default: all there are
 * @treturn[1] string the bytes
 * @treturn[1] integer the offset after them
 * @treturn[1] integer how many bytes between `offset` and the first one returned are in memory no more
 * @treturn[2] nil
 * @treturn[2] table the failure: the host was forked
 */
static int process_read(lua_State *L)
{
    static const char *const names[] = { "stdout", "stderr", NULL };
    struct ms_error error;
    struct ms_process *process = ms_lua_usable_process(L, 1, &error);
    enum ms_stream stream = luaL_checkoption(L, 2, NULL, names) == 0 ? MS_STDOUT : MS_STDERR;
    int64_t offset = lua_isnoneornil(L, 3) ? 0 : ms_lua_integer(L, 3, "offset");
    int64_t max = lua_isnoneornil(L, 4) ? INT64_MAX : ms_lua_integer(L, 4, "max");
    uint64_t next = 0, lost = 0;

    luaL_argcheck(L, offset >= 0, 3, "negative offset");
    luaL_argcheck(L, max >= 0, 4, "negative size");
    if (process == NULL)
        return ms_lua_failure(L, &error);

    size_t size = ms_process_read(process, stream, (uint64_t)offset, NULL, 0, &next, &lost);

    if ((uint64_t)max < size)
        size = (size_t)max;

    luaL_Buffer buffer;
    char *bytes = luaL_buffinitsize(L, &buffer, size);

    size = ms_process_read(process, stream, (uint64_t)offset, bytes, size, &next, &lost);
    luaL_pushresultsize(&buffer, size);
    lua_pushinteger(L, (lua_Integer)next);
    lua_pushinteger(L, (lua_Integer)lost);
    return 3;
}

/*** Stop the command: SIGTERM to its tree, `grace_ms` later SIGKILL to what is left. Does not wait.
 *
 * @function process:terminate
 * @tparam[opt] number grace_ms default: the one it was started with; 0: SIGKILL at once
 * @treturn[1] boolean true once; false when that was done before, or the command is over, or the process closed
 * @treturn[2] nil
 * @treturn[2] table the failure: the host was forked
 */
static int process_terminate(lua_State *L)
{
    struct handle *handle = luaL_checkudata(L, 1, PROCESS);
    int64_t grace_ms = lua_isnoneornil(L, 2) ? -1 : ms_lua_integer(L, 2, "grace_ms");
    struct ms_error error;

    if (!ms_supervisor_usable(&error))
        return ms_lua_failure(L, &error);
    lua_pushboolean(L, handle->process != NULL && ms_process_terminate(handle->process, grace_ms));
    return 1;
}

/*** Send a signal to the command's process group.
 *
 * @function process:signal
 * @tparam integer number of the signal
 * @treturn[1] boolean true
 * @treturn[2] nil
 * @treturn[2] table the failure: the command is over (`ESRCH`), or the host was forked
 */
static int process_signal(lua_State *L)
{
    struct ms_error error;
    struct ms_process *process = ms_lua_usable_process(L, 1, &error);
    int number = (int)luaL_checkinteger(L, 2);

    if (process != NULL) {
        int failed = ms_process_signal(process, number);

        if (failed == 0) {
            lua_pushboolean(L, 1);
            return 1;
        }
        ms_error_set(&error, MS_STAGE_SUPERVISOR, failed, NULL, NULL);
    }
    return ms_lua_failure(L, &error);
}

/*** A descriptor for poll(2) and event loops: readable when there is output or a change of state that `status` has not
 * returned yet. It stays the process's own: do not read it, do not close it.
 *
 * @function process:fileno
 * @treturn[1] integer
 * @treturn[2] nil
 * @treturn[2] table the failure
 */
static int process_fileno(lua_State *L)
{
    struct ms_error error;
    struct ms_process *process = ms_lua_usable_process(L, 1, &error);

    if (process != NULL) {
        int descriptor = ms_process_fileno(process);

        if (descriptor >= 0) {
            lua_pushinteger(L, descriptor);
            return 1;
        }
        ms_error_set(&error, MS_STAGE_SUPERVISOR, errno, NULL, NULL);
    }
    return ms_lua_failure(L, &error);
}

/*** The process id of what was spawned.
 *
 * @function process:pid
 * @treturn integer
 */
static int process_pid(lua_State *L)
{
    lua_pushinteger(L, ms_process_pid(check_process(L, 1)));
    return 1;
}

static int process_gc(lua_State *L)
{
    struct handle *handle = luaL_checkudata(L, 1, PROCESS);

    if (handle->process != NULL)
        ms_process_release(handle->process);
    handle->process = NULL;
    return 0;
}

/* `<close>`: the command is over when the block is left, whatever it was left by. It has its grace. */
static int process_close(lua_State *L)
{
    struct handle *handle = luaL_checkudata(L, 1, PROCESS);
    struct ms_error error;

    if (handle->process != NULL && ms_supervisor_usable(&error)) {
        ms_process_terminate(handle->process, -1);
        while (ms_process_wait(handle->process, -1, false) == MS_WAITED_INTERRUPTED)
            continue; /* at most the grace, and what a SIGKILL takes */
    }
    return process_gc(L);
}

static int process_tostring(lua_State *L)
{
    struct handle *handle = luaL_checkudata(L, 1, PROCESS);

    if (handle->process == NULL)
        lua_pushliteral(L, PROCESS " (closed)");
    else
        lua_pushfstring(L, PROCESS " (%d)", (int)ms_process_pid(handle->process));
    return 1;
}

void ms_lua_open_process(lua_State *L)
{
    static const luaL_Reg methods[] = {
        { "wait", process_wait },     { "status", process_status },
        { "read", process_read },     { "signal", process_signal },
        { "fileno", process_fileno }, { "terminate", process_terminate },
        { "pid", process_pid },       { NULL, NULL },
    };
    static const luaL_Reg metamethods[] = {
        { "__gc", process_gc },
        { "__close", process_close },
        { "__tostring", process_tostring },
        { NULL, NULL },
    };

    luaL_newmetatable(L, PROCESS);
    luaL_setfuncs(L, metamethods, 0);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}
