/* Running a runner once; see probe.h. */
#include "probe.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

#include "process.h"

static size_t take(struct ms_process *process, enum ms_stream stream, char *text)
{
    uint64_t next, lost;
    size_t length = ms_process_read(process, stream, 0, text, MS_PROBE_OUTPUT, &next, &lost);
    text[length] = '\0';
    return length;
}

bool ms_probe_run(const char *const *argv, const char *const *envp, int64_t timeout_ms, struct ms_probe *probe)
{
    struct ms_process_options options = {
        .argv = argv,
        .envp = envp,
        .stdio = { -1, -1, -1 },
        .max_output_bytes = MS_PROBE_OUTPUT,
        .timeout_ms = timeout_ms,
    };
    memset(probe, 0, sizeof *probe);
    struct ms_process *process = ms_process_start(&options, &probe->error);
    if (process == NULL)
        return false;
    enum ms_waited waited;
    do
        waited = ms_process_wait(process, -1, false);
    while (waited == MS_WAITED_INTERRUPTED);

    struct ms_facts facts;
    ms_process_facts(process, &facts);
    probe->started = true;
    probe->timed_out = facts.timed_out;
    probe->have_status = facts.have_status;
    probe->wait_status = facts.wait_status;
    probe->stdout_size = take(process, MS_STDOUT, probe->stdout_text);
    probe->stderr_size = take(process, MS_STDERR, probe->stderr_text);
    probe->ok =
        !facts.timed_out && facts.have_status && WIFEXITED(facts.wait_status) && WEXITSTATUS(facts.wait_status) == 0;
    ms_process_release(process);
    return probe->ok;
}
