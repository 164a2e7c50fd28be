/* The state file, and how calls are delayed, blocked or failed. */
#define _GNU_SOURCE
#include "simstate.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef STATE_PATH
#define STATE_PATH "/sim/nvml.state"
#endif
#define LONGEST_HANG_US 600000000ull /* a hang that is not healed must not outlast a test run */

typedef struct {
    const char *key, *value;
} Line;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Line *lines;
static int line_count, line_room;
static int of_fields, of_links; /* lines that are about a field value, about a link */
static char *seen, *text; /* the file as last read, and the copy that `lines` points into */
static size_t seen_size, seen_room;
static int initialized, trace_fd = -2;

void sim_sleep_ms(long ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000L};
    while (nanosleep(&left, &left) && errno == EINTR) {
    }
}

u64 sim_now_us(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (u64)now.tv_sec * 1000000 + (u64)now.tv_nsec / 1000;
}

/* ---- state file ---------------------------------------------------------------------------------- */

static size_t read_state(char **buffer, size_t *room) {
    const char *path = getenv("NVMLSIM_STATE");
    int fd = open(path ? path : STATE_PATH, O_RDONLY | O_CLOEXEC);
    size_t size = 0;
    ssize_t got = 0;
    if (fd < 0) return 0; /* no file: a healthy HGX H100 */
    do {
        if (*room - size < 4096) *buffer = realloc(*buffer, *room = *room * 2 + 16384);
        got = read(fd, *buffer + size, *room - size - 1);
        if (got > 0) size += (size_t)got;
    } while (got > 0 || (got < 0 && errno == EINTR));
    close(fd);
    while (size && (*buffer)[size - 1] != '\n') size--; /* a line still being written does not count */
    return size;
}

static char *trim(char *from, char *end) {
    while (end > from && strchr(" \t\r", end[-1])) end--;
    *end = 0;
    return from + strspn(from, " \t");
}

static void parse_line(char *line) {
    char *equals;
    line[strcspn(line, "#")] = 0;
    if (!(equals = strchr(line, '='))) return;
    if (line_count == line_room) lines = realloc(lines, sizeof *lines * (size_t)(line_room = line_room * 2 + 64));
    lines[line_count].value = trim(equals + 1, equals + strlen(equals));
    lines[line_count].key = trim(line, equals);
    of_fields += strstr(lines[line_count].key, ".field") != NULL;
    of_links += strstr(lines[line_count].key, ".link.") != NULL;
    line_count++;
}

static void reload_locked(void) {
    static char *buffer;
    static size_t room;
    size_t size = read_state(&buffer, &room);
    if (size == seen_size && (!size || !memcmp(buffer, seen, size))) return;
    if (size + 1 > seen_room) {
        seen = realloc(seen, seen_room = size + 4096);
        text = realloc(text, seen_room);
    }
    if (size) {
        memcpy(seen, buffer, size);
        memcpy(text, buffer, size);
    }
    seen_size = size;
    line_count = of_fields = of_links = 0;
    for (char *line = text, *end; line && line < text + size; line = end + 1) {
        if (!(end = memchr(line, '\n', (size_t)(text + size - line)))) break;
        *end = 0;
        parse_line(line);
    }
}

void sim_reload(void) {
    pthread_mutex_lock(&lock);
    reload_locked();
    pthread_mutex_unlock(&lock);
}

static const char *find(const char *key) { /* under the lock; the last line of a key wins */
    for (int i = line_count; i--;)
        if (!strcmp(lines[i].key, key)) return lines[i].value;
    return NULL;
}

static int lookup(int gpu, char *out, size_t room, const char *key) {
    char full[200];
    const char *value;
    pthread_mutex_lock(&lock);
    if (gpu == SYSTEM) {
        snprintf(full, sizeof full, "sys.%s", key);
        value = find(full);
    } else {
        snprintf(full, sizeof full, "gpu.%d.%s", gpu, key);
        if (!(value = find(full))) {
            snprintf(full, sizeof full, "gpu.*.%s", key);
            value = find(full);
        }
    }
    if (value) snprintf(out, room, "%s", value);
    pthread_mutex_unlock(&lock);
    return value != NULL;
}

int sim_text(int gpu, char *out, size_t room, const char *key, ...) {
    char name[160];
    va_list words;
    va_start(words, key);
    vsnprintf(name, sizeof name, key, words);
    va_end(words);
    return lookup(gpu, out, room, name);
}

/* "BASE", or "BASE+RATE/s@SINCE": it grows by RATE a second from SINCE (seconds since 1970) on. */
static u64 number_now(const char *value) {
    char *rest;
    u64 base = strtoull(value, &rest, 0);
    double rate, since;
    if (sscanf(rest, "+%lf/s@%lf", &rate, &since) != 2) return base;
    double passed_s = (double)sim_now_us(CLOCK_REALTIME) / 1e6 - since;
    return passed_s > 0 ? base + (u64)(rate * passed_s) : base;
}

u64 sim_number(int gpu, u64 otherwise, const char *key, ...) {
    char name[160], value[64];
    va_list words;
    va_start(words, key);
    vsnprintf(name, sizeof name, key, words);
    va_end(words);
    return lookup(gpu, value, sizeof value, name) ? number_now(value) : otherwise;
}

static int any(const int *lines_of_a_kind) {
    pthread_mutex_lock(&lock);
    int found = *lines_of_a_kind;
    pthread_mutex_unlock(&lock);
    return found;
}

int sim_any_field(void) { return any(&of_fields); }

u64 sim_link(int gpu, u32 link, u64 otherwise, const char *key) {
    if (!any(&of_links)) return otherwise; /* the usual case, and called 72 times for each GPU */
    return sim_number(gpu, sim_number(gpu, otherwise, "link.*.%s", key), "link.%u.%s", link, key);
}

int sim_gpu_count(void) {
    pthread_mutex_lock(&lock);
    const char *value = find("count");
    int count = value ? atoi(value) : 8;
    pthread_mutex_unlock(&lock);
    return count < MAX_GPUS ? count : MAX_GPUS;
}

/* ---- events -------------------------------------------------------------------------------------- */

static int parse_event(const Line *line, SimEvent *event) {
    char rest;
    return !strcmp(line->key, "event") &&
           sscanf(line->value, "%ld:%d:%llu:%llu%c", &event->seq, &event->gpu, &event->type, &event->data, &rest) ==
               4 &&
           event->gpu >= 0 && event->gpu < MAX_GPUS;
}

int sim_next_event(const u64 masks[MAX_GPUS], const long after[MAX_GPUS], SimEvent *out) {
    SimEvent event;
    int found = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < line_count; i++) {
        if (!parse_event(&lines[i], &event)) continue;
        if (!(masks[event.gpu] & event.type) || event.seq <= after[event.gpu]) continue;
        if (found && event.seq >= out->seq) continue;
        *out = event;
        found = 1;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

long sim_newest_event(void) {
    SimEvent event;
    long newest = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < line_count; i++)
        if (parse_event(&lines[i], &event) && event.seq > newest) newest = event.seq;
    pthread_mutex_unlock(&lock);
    return newest;
}

/* ---- faults --------------------------------------------------------------------------------------- */

/* 0, '1' (sleeps), 'D' (uninterruptible, ends with SIGKILL) or 'K' (survives SIGKILL) */
static char hang_kind(int gpu, const char *symbol) {
    char value[16];
    sim_reload();
    if (!sim_text(gpu, value, sizeof value, "hang.%s", symbol) && !sim_text(gpu, value, sizeof value, "hang.*"))
        return 0;
    return value[0] == '0' ? 0 : value[0];
}

static int must_hang(int gpu, const char *symbol, u64 until_us) {
    return hang_kind(gpu, symbol) && sim_now_us(CLOCK_MONOTONIC) < until_us;
}

/* The parent of a vfork waits for its child in state D, as ps shows it. */
static __attribute__((noinline)) void hang_in_state_d(int gpu, const char *symbol, u64 until_us) {
    pid_t child = vfork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (must_hang(gpu, symbol, until_us)) sim_sleep_ms(10);
        _exit(0);
    }
    if (child > 0) waitpid(child, NULL, 0);
}

/* A tracer that never resumes the exit stop of this thread: after SIGKILL the process keeps its files open and
 * wait() never returns, as with a thread that is stuck inside the driver. Needs no root. */
static void hang_beyond_sigkill(int gpu, const char *symbol, u64 until_us) {
    pid_t me = (pid_t)syscall(SYS_gettid);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    pthread_mutex_lock(&lock); /* so that no other thread holds it in the child */
    pid_t child = fork();
    pthread_mutex_unlock(&lock);
    if (!child) {
        if (fork()) _exit(0);
        setsid();
        for (int fd = 0; fd < 1024; fd++) close(fd);
        if (ptrace(PTRACE_SEIZE, me, 0, PTRACE_O_TRACEEXIT)) _exit(1);
        while (must_hang(gpu, symbol, until_us) && !kill(me, 0)) {
            int status; /* another signal, as SIGCHLD of the child above, would stop the thread in state t */
            if (waitpid(me, &status, WNOHANG | __WALL) == me && WIFSTOPPED(status) && !(status >> 16))
                ptrace(PTRACE_CONT, me, 0, (long)WSTOPSIG(status));
            sim_sleep_ms(10);
        }
        _exit(0); /* detaches: the thread continues or exits */
    }
    if (child > 0) waitpid(child, NULL, 0);
}

static void hang(int gpu, const char *symbol) {
    u64 until_us = sim_now_us(CLOCK_MONOTONIC) + LONGEST_HANG_US;
    char kind = hang_kind(gpu, symbol);
    if (kind == 'D') hang_in_state_d(gpu, symbol, until_us);
    if (kind == 'K') hang_beyond_sigkill(gpu, symbol, until_us);
    while (must_hang(gpu, symbol, until_us)) sim_sleep_ms(2);
}

static Return answer(const char *symbol, int gpu) {
    char value[64];
    if (sim_text(gpu, value, sizeof value, "rc.%s", symbol) || sim_text(gpu, value, sizeof value, "rc.*"))
        return atoi(value);
    if (!sim_is_initialized() && strncmp(symbol, "nvmlInit", 8)) return UNINITIALIZED;
    if (gpu != SYSTEM && (gpu >= sim_gpu_count() || sim_number(gpu, 0, "lost"))) return GPU_IS_LOST;
    return SUCCESS;
}

static void trace(const char *symbol, int gpu, Return rc) {
    char line[160];
    if (trace_fd == -2) {
        const char *path = getenv("NVMLSIM_TRACE");
        trace_fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    }
    if (trace_fd < 0) return;
    int size = snprintf(line, sizeof line, "%d %s %d %d\n", getpid(), symbol, gpu, rc);
    if (write(trace_fd, line, (size_t)size) < 0) trace_fd = -1;
}

Return sim_enter(const char *symbol, int gpu) {
    char value[64];
    sim_reload();
    if (sim_text(gpu, value, sizeof value, "ms.%s", symbol) || sim_text(gpu, value, sizeof value, "ms.*"))
        sim_sleep_ms(atol(value));
    if (hang_kind(gpu, symbol)) hang(gpu, symbol);
    Return rc = answer(symbol, gpu);
    trace(symbol, gpu, rc);
    return rc;
}

void sim_initialized(int change) {
    pthread_mutex_lock(&lock);
    initialized += change;
    pthread_mutex_unlock(&lock);
}

int sim_is_initialized(void) {
    pthread_mutex_lock(&lock);
    int yes = initialized > 0;
    pthread_mutex_unlock(&lock);
    return yes;
}
