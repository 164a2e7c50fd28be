/* Loaded into slurmd where the kernel has hierarchies of version 1 too: slurmd's plugin cgroup/v2 ends with "Hybrid
   mode is not supported" when /proc/PID/cgroup names them. It sees the line of version 2 alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int of_cgroup(const char *path) {
    size_t length = strlen(path);
    return length > 13 && !strncmp(path, "/proc/", 6) && !strcmp(path + length - 7, "/cgroup");
}

static int last_line(int file) {
    char text[8192];
    ssize_t length = read(file, text, sizeof text - 1);
    int made = memfd_create("cgroup", MFD_CLOEXEC);
    close(file);
    text[length > 0 ? length : 0] = 0;
    const char *line = strstr(text, "0::");
    if (line && write(made, line, strlen(line)) < 0)
        return -1;
    lseek(made, 0, SEEK_SET);
    return made;
}

int open(const char *path, int flags, ...) {
    static int (*real)(const char *, int, ...);
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    if (!real)
        real = dlsym(RTLD_NEXT, "open");
    int file = real(path, flags, mode);
    return file >= 0 && of_cgroup(path) ? last_line(file) : file;
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

FILE *fopen(const char *path, const char *mode) {
    static FILE *(*real)(const char *, const char *);
    if (!real)
        real = dlsym(RTLD_NEXT, "fopen");
    if (!of_cgroup(path))
        return real(path, mode);
    int file = open(path, O_RDONLY);
    return file < 0 ? NULL : fdopen(file, mode);
}

FILE *fopen64(const char *path, const char *mode) __attribute__((alias("fopen")));
