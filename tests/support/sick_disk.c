/* A disk that fails, is full, or is slow, and a wall clock that is wrong, as one process sees them:
 * an LD_PRELOAD library.
 *
 * Job: stands before the C library's calls on files. A control file ($SICK_DISK), which is mapped
 * and so followed at once, has a rule a line: `operation action pattern`. Operations: open, create,
 * write, read, sync, truncate, rename. Actions: the number of an errno, `sleep=MS` before the call,
 * `short=BYTES` for a write or read that ends early. Patterns: a shell's, of the whole path, in
 * which a star matches slashes, too. Rules are taken in order: a sleep goes on to the next rule,
 * all else ends the search.
 * Behind the rules are eight bytes: by how many nanoseconds the wall clock is ahead. Only that clock
 * is, as after a step; libfaketime 0.9.10 breaks waits on others (EINVAL of clock_nanosleep).
 * Leaves out: reads through a mapping, which no library sees; times of files, which are the kernel's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define CONTROL_BYTES 4096
#define RULES_BYTES (CONTROL_BYTES - 8)
#define BILLION 1000000000LL
#define NO_LIMIT ((size_t)-1)

static const volatile char *rules;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SICK_DISK");
    if (!path) return;
    int (*real_open)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    int fd = real_open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    void *mapped = mmap(NULL, CONTROL_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) rules = mapped;
    close(fd);
}

static void sleep_ms(long ms) {
    struct timespec left = {ms / 1000, (ms % 1000) * 1000000};
    while (nanosleep(&left, &left) && errno == EINTR) {}
}

/* 0, or -1 with errno set; *limit is how much the call may do. */
static int judge(const char *operation, const char *path, size_t *limit) {
    if (!rules || !rules[0]) return 0;
    char copy[RULES_BYTES + 1], *place = NULL;
    memcpy(copy, (const void *)rules, RULES_BYTES);
    copy[RULES_BYTES] = 0;
    for (char *line = strtok_r(copy, "\n", &place); line; line = strtok_r(NULL, "\n", &place)) {
        char wanted[16], action[32], pattern[512];
        if (sscanf(line, "%15s %31s %511s", wanted, action, pattern) != 3) continue;
        if (strcmp(wanted, operation) || fnmatch(pattern, path, 0)) continue;
        if (!strncmp(action, "sleep=", 6)) {
            sleep_ms(atol(action + 6));
            continue;
        }
        if (!strncmp(action, "short=", 6)) {
            *limit = (size_t)atol(action + 6);
            return 0;
        }
        errno = atoi(action);
        return -1;
    }
    return 0;
}

static int judge_fd(const char *operation, int fd, size_t *limit) {
    if (!rules || !rules[0]) return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0 || path[0] != '/') return 0;
    path[size] = 0;
    return judge(operation, path, limit);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define JUDGE_FD(operation, fd)             \
    size_t limit = NO_LIMIT;                \
    if (judge_fd(operation, fd, &limit)) return -1
#define LESS(size) ((size) < limit ? (size) : limit)

#define OPEN(name, first, path, ...)                                              \
    int name(first const char *path, int flags, ...) {                            \
        va_list more;                                                             \
        va_start(more, flags);                                                    \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more);                                                             \
        size_t limit = NO_LIMIT;                                                  \
        if ((flags & O_CREAT) && access(path, F_OK)) {                            \
            if (judge("create", path, &limit)) return -1;                         \
        } else if (judge("open", path, &limit)) return -1;                        \
        return REAL(name)(__VA_ARGS__, flags, mode);                              \
    }
#define AT int directory,

OPEN(open, , path, path)
OPEN(open64, , path, path)
OPEN(openat, AT, path, directory, path)
OPEN(openat64, AT, path, directory, path)

#define POSITIONED(name, operation, data_type, offset_type)                  \
    ssize_t name(int fd, data_type data, size_t size, offset_type position) { \
        JUDGE_FD(operation, fd);                                             \
        return REAL(name)(fd, data, LESS(size), position);                   \
    }

POSITIONED(pwrite, "write", const void *, off_t)
POSITIONED(pwrite64, "write", const void *, off64_t)
POSITIONED(pread, "read", void *, off_t)
POSITIONED(pread64, "read", void *, off64_t)

/* A vector that is cut short is a call of its first part alone. */
#define VECTOR(name, operation, offset_type)                                               \
    ssize_t name(int fd, const struct iovec *parts, int count, offset_type position) {     \
        JUDGE_FD(operation, fd);                                                           \
        struct iovec first = {parts[0].iov_base, LESS(parts[0].iov_len)};                  \
        return limit == NO_LIMIT ? REAL(name)(fd, parts, count, position)                  \
                                 : REAL(name)(fd, &first, 1, position);                    \
    }
#define VECTOR2(name, operation, offset_type)                                              \
    ssize_t name(int fd, const struct iovec *parts, int count, offset_type position, int flags) { \
        JUDGE_FD(operation, fd);                                                           \
        struct iovec first = {parts[0].iov_base, LESS(parts[0].iov_len)};                  \
        return limit == NO_LIMIT ? REAL(name)(fd, parts, count, position, flags)           \
                                 : REAL(name)(fd, &first, 1, position, flags);             \
    }

VECTOR(pwritev, "write", off_t)
VECTOR(pwritev64, "write", off64_t)
VECTOR(preadv, "read", off_t)
VECTOR(preadv64, "read", off64_t)
VECTOR2(pwritev2, "write", off_t)
VECTOR2(pwritev64v2, "write", off64_t)
VECTOR2(preadv2, "read", off_t)
VECTOR2(preadv64v2, "read", off64_t)

ssize_t write(int fd, const void *data, size_t size) {
    JUDGE_FD("write", fd);
    return REAL(write)(fd, data, LESS(size));
}

ssize_t read(int fd, void *data, size_t size) {
    JUDGE_FD("read", fd);
    return REAL(read)(fd, data, LESS(size));
}

ssize_t sendfile(int sink, int source, off_t *position, size_t size) {
    JUDGE_FD("read", source);
    return REAL(sendfile)(sink, source, position, LESS(size));
}

ssize_t sendfile64(int sink, int source, off64_t *position, size_t size) {
    JUDGE_FD("read", source);
    return REAL(sendfile64)(sink, source, position, LESS(size));
}

int fsync(int fd) {
    JUDGE_FD("sync", fd);
    return REAL(fsync)(fd);
}

int fdatasync(int fd) {
    JUDGE_FD("sync", fd);
    return REAL(fdatasync)(fd);
}

int ftruncate(int fd, off_t size) {
    JUDGE_FD("truncate", fd);
    return REAL(ftruncate)(fd, size);
}

int ftruncate64(int fd, off64_t size) {
    JUDGE_FD("truncate", fd);
    return REAL(ftruncate64)(fd, size);
}

int rename(const char *source, const char *target) {
    size_t limit = NO_LIMIT;
    if (judge("rename", source, &limit)) return -1;
    return REAL(rename)(source, target);
}

int renameat(int from, const char *source, int to, const char *target) {
    size_t limit = NO_LIMIT;
    if (judge("rename", source, &limit)) return -1;
    return REAL(renameat)(from, source, to, target);
}

static long long ahead(void) {
    return rules ? *(const volatile long long *)(rules + RULES_BYTES) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static __typeof__(&clock_gettime) real;
    if (!real) real = REAL(clock_gettime);
    int result = real(clock, now);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long ns = now->tv_sec * BILLION + now->tv_nsec + ahead();
        now->tv_sec = ns / BILLION;
        now->tv_nsec = ns % BILLION;
    }
    return result;
}

time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place) *place = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}
