/* Kernel objects that several processes share: message queues are files (of /dev/mqueue); SysV objects and keys are not,
 * and no mode promises anything about them, but the table says what becomes of them. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static int queue_made(const struct facts *facts)
{
    return done_or_absent(mq_open(text("/moonsand-mark-%s", facts->name), O_RDWR | O_CREAT, 0600, NULL),
                          "message queues");
}

static int queue_sent(const struct facts *facts)
{
    mqd_t queue = mq_open(facts->queue, O_WRONLY | O_NONBLOCK);
    return done_or_absent(queue < 0 ? -1 : mq_send(queue, facts->name, strlen(facts->name), 0), "message queues");
}

static int queue_removed(const struct facts *facts)
{
    return done_or_absent(mq_unlink(facts->queue), "message queues");
}

static int queue_created_again(const struct facts *facts)
{
    mqd_t queue = mq_open(facts->queue, O_RDWR | O_CREAT | O_NONBLOCK, 0600, NULL);
    return done_or_absent(queue < 0 ? -1 : mq_send(queue, facts->name, strlen(facts->name), 0), "message queues");
}

static int segment_written(const struct facts *facts)
{
    char *memory = shmat(facts->segment, NULL, 0);
    if (memory == (void *)-1)
        return done_or_absent(-1, "SysV shared memory");
    strcpy(memory, facts->name);
    return DONE;
}

static int segment_made(const struct facts *facts)
{
    (void)facts;
    return done_or_absent(shmget(0x6d616b65, 4096, IPC_CREAT | 0600), "SysV shared memory");
}

static int semaphore_made(const struct facts *facts)
{
    (void)facts;
    return done_or_absent(semget(0x6d616b65, 1, IPC_CREAT | 0600), "SysV semaphores");
}

static int message_queue_made(const struct facts *facts)
{
    (void)facts;
    return done_or_absent(msgget(0x6d616b65, IPC_CREAT | 0600), "SysV message queues");
}

static int key_left(const struct facts *facts)
{
    long key = syscall(SYS_add_key, "user", text("moonsand-mark-%s", strrchr(facts->base, '/') + 1), "1", 1UL,
                       -4 /* the user's keyring */);
    if (key >= 0) {
        syscall(SYS_keyctl, 5 /* KEYCTL_SETPERM */, key, 0x3f010101L); /* so that root sees it */
        syscall(SYS_keyctl, 15 /* KEYCTL_SET_TIMEOUT */, key, 300); /* no namespace holds it, so it must go by itself */
    }
    return done_or_absent(key, "keyrings");
}

static int socket_reached(const struct facts *facts)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strncpy(address.sun_path, text("%s/victim/socket", facts->base), sizeof address.sun_path - 1);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    long sent =
        sendto(fd, facts->name, strlen(facts->name), MSG_DONTWAIT, (const struct sockaddr *)&address, sizeof address);
    usleep(20000); /* until it is taken out */
    return done_unless_negative(sent);
}

static const struct attack list[] = {
    { "mq-create", "mq:", "a POSIX message queue", queue_made, NULL, 0 },
    { "mq-send", "mq:", "a message into somebody's queue", queue_sent, NULL, 0 },
    { "mq-send-creating", "mq:", "the same with O_CREAT", queue_created_again, NULL, 0 },
    { "mq-unlink", "mq:", "somebody's queue removed", queue_removed, NULL, ALONE },
    { "shm-write", "sysv:content", "somebody's SysV shared memory written", segment_written, NULL, BEYOND },
    { "shm-create", "sysv:shm", "a SysV shared memory segment that stays", segment_made, NULL, BEYOND },
    { "sem-create", "sysv:sem", "a SysV semaphore that stays", semaphore_made, NULL, BEYOND },
    { "msg-create", "sysv:msg", "a SysV message queue that stays", message_queue_made, NULL, BEYOND },
    { "key-left", "keys:", "a key in the user's keyring", key_left, NULL, BEYOND },
    { "socket-reached", "victim:socket", "a datagram for a daemon's socket", socket_reached, NULL, BEYOND },
};

FAMILY(ipc_family, "shared objects", list);
