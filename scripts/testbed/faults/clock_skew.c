/* Preloaded into every program of a node (/etc/ld.so.preload): CLOCK_REALTIME is off by the seconds in
 * /run/clock-skew/seconds. A time namespace cannot do this: it covers the monotonic clocks only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SEEN __attribute__((visibility("default")))

static time_t skew_s;

__attribute__((constructor)) static void read_skew(void) {
    long seconds = 0;
    FILE *file = fopen("/run/clock-skew/seconds", "re");
    if (!file) return;
    if (fscanf(file, "%ld", &seconds) == 1) skew_s = seconds;
    fclose(file);
}

SEEN int clock_gettime(clockid_t clock, struct timespec *out) {
    int rc = (int)syscall(SYS_clock_gettime, clock, out);
    if (!rc && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) out->tv_sec += skew_s;
    return rc;
}

SEEN int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    int rc = (int)syscall(SYS_gettimeofday, out, zone);
    if (!rc) out->tv_sec += skew_s;
    return rc;
}

SEEN time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

SEEN int timespec_get(struct timespec *out, int base) {
    return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, out) ? base : 0;
}

/* For waits until a time: the kernel uses the true clock. A time before 2001 belongs to a monotonic clock. */
static struct timespec true_moment(const struct timespec *moment) {
    struct timespec t = *moment;
    if (t.tv_sec > 1000000000) t.tv_sec -= skew_s;
    return t;
}

/* The symbol that the program would use: pthread_cond_timedwait has an older version on x86-64. */
static void *next(const char *name, const char *version) {
    void *found = dlvsym(RTLD_NEXT, name, version);
    return found ? found : dlsym(RTLD_NEXT, name);
}

SEEN int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                                const struct timespec *restrict moment) {
    int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *) =
        (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))next("pthread_cond_timedwait",
                                                                                    "GLIBC_2.3.2");
    struct timespec t = true_moment(moment);
    return real(cond, mutex, &t);
}

SEEN int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict moment) {
    int (*real)(pthread_mutex_t *, const struct timespec *) =
        (int (*)(pthread_mutex_t *, const struct timespec *))next("pthread_mutex_timedlock", "GLIBC_2.34");
    struct timespec t = true_moment(moment);
    return real(mutex, &t);
}

SEEN int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict moment) {
    int (*real)(sem_t *, const struct timespec *) =
        (int (*)(sem_t *, const struct timespec *))next("sem_timedwait", "GLIBC_2.34");
    struct timespec t = true_moment(moment);
    return real(semaphore, &t);
}
