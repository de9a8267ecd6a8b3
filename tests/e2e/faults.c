/* Preloaded into the gateway by disk_test.py: a disk that stands still or is full, and a wall clock that was
   changed, as the file that FAULTS names says. For kill_test.py the file that CLOCK names says at the start how
   many seconds the clock is ahead. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

struct faults {
    int64_t stands_still;  /* syncs don't return */
    int64_t is_full;       /* nothing can be written to the database */
    int64_t clock_ahead;   /* seconds */
};
static volatile const struct faults none;
static volatile const struct faults *faults = &none;
static long clock_ahead_at_start;

__attribute__((constructor)) static void look_at_clock(void) {
    FILE *file = getenv("CLOCK") ? fopen(getenv("CLOCK"), "re") : NULL;
    if (!file) return;
    if (fscanf(file, "%ld", &clock_ahead_at_start) != 1) abort();
    fclose(file);
}

__attribute__((constructor)) static void look_at_faults(void) {
    if (!getenv("FAULTS")) return;
    const int file = open(getenv("FAULTS"), O_RDONLY | O_CLOEXEC);
    void *mapped = mmap(NULL, sizeof *faults, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) abort();
    faults = mapped;
    close(file);
}

static void wait_for_disk(void) {
    while (faults->stands_still) usleep(10 * 1000);
}

int fsync(int file) {
    wait_for_disk();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file);
}

int fdatasync(int file) {
    wait_for_disk();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(file);
}

static int is_refused(int file) {
    char link[64], path[4096] = "";
    if (!faults->is_full) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (readlink(link, path, sizeof path - 1) < 0 || !strstr(path, "pulsegate.db")) return 0;
    errno = ENOSPC;
    return 1;
}

ssize_t write(int file, const void *bytes, size_t size) {
    if (is_refused(file)) return -1;
    return ((ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write"))(file, bytes, size);
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t at) {
    if (is_refused(file)) return -1;
    return ((ssize_t(*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64"))(file, bytes, size, at);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    const int result = ((int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime"))(clock, time);
    if (clock == CLOCK_REALTIME) time->tv_sec += faults->clock_ahead + clock_ahead_at_start;
    return result;
}
