/* A load generator for small requests: one epoll loop, frames encoded beforehand.
 *
 *   load [options] HOST:PORT:FRAMES...
 *     -c N  connections            -i N  requests in flight on each
 *     -w S  seconds of warm-up     -s S  seconds measured
 *     -r R  requests a second in all, at fixed times (without it: as fast as answers come)
 *     -n N  further connections that ask once and then are idle
 *     -e N  where an answer holds its error code, counted behind its size
 *     -p P  process whose CPU time counts as the broker's (may be repeated)
 *     -f F  a file with one Fetch v4 request for what is produced, -o N where its offset stands:
 *           latency is then from when a record was due to its arrival, else to its acknowledgement
 *     -t    over TLS, without a look at the certificate; not for -n and -f (only if WITH_TLS)
 *
 * FRAMES holds whole requests, size first. Connections are spread over the targets, and each takes
 * the frames of its target in turn. In the open load (-r) latency counts from when a request was
 * due, so that a broker that stalls cannot hide what waited meanwhile; what its socket does not take
 * stays due, and answers are received all the while. Prints one line of JSON.
 * IPv4 only; an answer must fit in 64 KB, a fetched answer in 4 MB.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_TLS
#include <fcntl.h>
#include <openssl/ssl.h>
#endif

enum { ANSWER_BYTES = 1 << 16, FETCH_BYTES = 4 << 20, MAX_PIDS = 32, MAX_TARGETS = 16 };
enum { EVENTS = 256, IO_LIMIT_S = 20, DRAIN_LIMIT_S = 10 };
enum { AT_TIMER = 1, AT_FETCHER = 2, AT_LINES = 3 };

typedef struct {
    struct sockaddr_in address;
    char *frames;
    size_t bytes, count;
    size_t *starts; /* count + 1 of them */
} Target;

typedef struct {
    int fd;
    Target *target;
    size_t index;     /* of this line */
    size_t next;      /* the frame to send next, or whose rest is to be sent */
    size_t sent;      /* bytes of it that are sent */
    size_t due;       /* frames that are to be sent by now */
    int is_full;      /* the socket takes no more: epoll tells when it does */
    double *sent_at;  /* ring of requests that wait for answers */
    size_t head, tail, ring;
    size_t held;
    char *buffer;
#ifdef WITH_TLS
    SSL *tls;
#endif
} Line;

static Target targets[MAX_TARGETS];
static int pids[MAX_PIDS], pid_count, target_count;
static long error_at = -1;
static float *latencies;
static size_t latency_count, latency_room;

static void fail(const char *what) {
    fprintf(stderr, "load: %s (%s)\n", what, strerror(errno));
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static double own_cpu(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static double brokers_cpu(void) {
    double total = 0;
    for (int i = 0; i < pid_count; i++) {
        char path[64], line[1024];
        unsigned long user = 0, system = 0;
        snprintf(path, sizeof path, "/proc/%d/stat", pids[i]);
        FILE *file = fopen(path, "r");
        if (!file) fail(path);
        size_t size = fread(line, 1, sizeof line - 1, file);
        line[size] = 0;
        fclose(file);
        char *rest = strrchr(line, ')');
        if (!rest || sscanf(rest + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                            &user, &system) != 2)
            fail("cannot read the CPU time of a broker");
        total += (user + system) / (double)sysconf(_SC_CLK_TCK);
    }
    return total;
}

static char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    fseek(file, 0, SEEK_END);
    *size = ftell(file);
    rewind(file);
    char *data = malloc(*size + 1);
    if (!data || fread(data, 1, *size, file) != *size) fail(path);
    fclose(file);
    return data;
}

static uint32_t be32(const char *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return ntohl(v);
}

static uint64_t be64(const char *p) { return (uint64_t)be32(p) << 32 | be32(p + 4); }

static void add_target(char *text) {
    if (target_count == MAX_TARGETS) fail("too many targets");
    Target *target = &targets[target_count++];
    char *port = strchr(text, ':');
    char *path = port ? strchr(port + 1, ':') : NULL;
    if (!path) fail("a target is HOST:PORT:FRAMES");
    *port++ = 0;
    *path++ = 0;
    target->address.sin_family = AF_INET;
    target->address.sin_port = htons(atoi(port));
    if (inet_pton(AF_INET, text, &target->address.sin_addr) != 1) fail(text);
    target->frames = read_file(path, &target->bytes);
    for (size_t at = 0; at < target->bytes; at += 4 + be32(target->frames + at)) target->count++;
    target->starts = calloc(target->count + 1, sizeof(size_t));
    size_t at = 0;
    for (size_t i = 0; i < target->count; i++) {
        target->starts[i] = at;
        at += 4 + be32(target->frames + at);
    }
    target->starts[target->count] = at;
    if (!target->count || at != target->bytes) fail("the frames do not fill their file");
}

static int open_socket(Target *target) {
    struct timeval limit = {IO_LIMIT_S, 0};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) fail("socket");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&target->address, sizeof target->address)) fail("connect");
    return fd;
}

static void send_all(int fd, const char *data, size_t size) {
    while (size) {
        ssize_t done = send(fd, data, size, MSG_NOSIGNAL);
        if (done <= 0) fail("send");
        data += done;
        size -= done;
    }
}

#ifdef WITH_TLS
static SSL_CTX *secured; /* with -t */

static void shake_hands(Line *line) {
    line->tls = SSL_new(secured);
    if (!line->tls || !SSL_set_fd(line->tls, line->fd)) fail("SSL_new");
    if (SSL_connect(line->tls) != 1) fail("TLS handshake");
    if (fcntl(line->fd, F_SETFL, O_NONBLOCK)) fail("fcntl");
}

/* The library takes all or nothing, and wants to be given the same once more. */
static ssize_t send_secured(Line *line, const char *data, size_t size) {
    int done = SSL_write(line->tls, data, size);
    if (done > 0) return done;
    int error = SSL_get_error(line->tls, done);
    if (error != SSL_ERROR_WANT_WRITE && error != SSL_ERROR_WANT_READ) fail("TLS");
    errno = EAGAIN;
    return -1;
}
#endif

/* As send without waiting. */
static ssize_t send_on(Line *line, const char *data, size_t size) {
#ifdef WITH_TLS
    if (line->tls) return send_secured(line, data, size);
#endif
    return send(line->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* As recv without waiting. */
static ssize_t receive_on(Line *line) {
    char *to = line->buffer + line->held;
    size_t room = ANSWER_BYTES - line->held;
#ifdef WITH_TLS
    if (line->tls) {
        int got = SSL_read(line->tls, to, room);
        if (got > 0) return got;
        if (SSL_get_error(line->tls, got) != SSL_ERROR_WANT_READ) return 0;
        errno = EAGAIN;
        return -1;
    }
#endif
    return recv(line->fd, to, room, MSG_DONTWAIT);
}

static void watch_for(Line *line, int is_full);

static void send_due(Line *line) {
    Target *target = line->target;
    while (line->due) {
        size_t at = target->starts[line->next] + line->sent;
        size_t left = target->starts[line->next + 1] - at;
        ssize_t done = send_on(line, target->frames + at, left);
        if (done < 0 && errno == EAGAIN) {
            watch_for(line, 1);
            return;
        }
        if (done <= 0) fail("send");
        line->sent += done;
        if ((size_t)done < left) continue;
        line->sent = 0;
        line->next = (line->next + 1) % target->count;
        line->due--;
    }
    watch_for(line, 0);
}

static void send_next(Line *line, double stamp) {
    if (line->tail - line->head == line->ring) fail("more requests wait than there is room for");
    line->sent_at[line->tail++ % line->ring] = stamp;
    line->due++;
    if (!line->is_full) send_due(line);
}

static void note_latency(double seconds) {
    if (latency_count == latency_room) {
        latency_room = latency_room ? latency_room * 2 : 1 << 16;
        latencies = realloc(latencies, latency_room * sizeof(float));
        if (!latencies) fail("no memory");
    }
    latencies[latency_count++] = seconds * 1e3;
}

static void check_answer(const char *answer, uint32_t size) {
    if (error_at < 0) return;
    if (size < (uint32_t)error_at + 2) {
        errno = 0;
        fail("an answer is too short to be one");
    }
    int16_t code = (uint8_t)answer[error_at] << 8 | (uint8_t)answer[error_at + 1];
    if (code) {
        fprintf(stderr, "load: the broker answers with error %d\n", code);
        exit(1);
    }
}

/* Ask once and read the answer. */
static void ask_once(int fd, Target *target, size_t frame) {
    static char answer[ANSWER_BYTES];
    size_t start = target->starts[frame], held = 0;
    send_all(fd, target->frames + start, target->starts[frame + 1] - start);
    while (held < 4 || held < 4 + (size_t)be32(answer)) {
        ssize_t got = recv(fd, answer + held, sizeof answer - held, 0);
        if (got <= 0) fail("no first answer");
        held += got;
    }
    check_answer(answer + 4, held - 4);
}

/* Receive what is there; returns how many whole answers it made. */
static size_t take_answers(Line *line) {
    ssize_t got = receive_on(line);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (got <= 0) fail("the broker closed a connection");
    line->held += got;
    size_t at = 0, count = 0;
    while (line->held - at >= 4) {
        uint32_t size = be32(line->buffer + at);
        if (size > ANSWER_BYTES - 4) fail("an answer is too long");
        if (line->held - at < 4 + (size_t)size) break;
        check_answer(line->buffer + at + 4, size);
        at += 4 + size;
        count++;
    }
    line->held -= at;
    memmove(line->buffer, line->buffer + at, line->held);
    return count;
}

typedef struct {
    int fd;
    char *frame, *buffer;
    size_t bytes, offset_at, held;
    int64_t next;
} Fetcher;

static void fetch_next(Fetcher *fetcher) {
    uint32_t high = htonl((uint64_t)fetcher->next >> 32), low = htonl((uint32_t)fetcher->next);
    memcpy(fetcher->frame + fetcher->offset_at, &high, 4);
    memcpy(fetcher->frame + fetcher->offset_at + 4, &low, 4);
    send_all(fetcher->fd, fetcher->frame, fetcher->bytes);
}

/* Receive; moves `next` past the records of a whole Fetch v4 answer and asks for more. */
static void take_fetched(Fetcher *fetcher) {
    char *answer = fetcher->buffer;
    ssize_t got = recv(fetcher->fd, answer + fetcher->held, FETCH_BYTES - fetcher->held,
                       MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) fail("the broker closed the fetching connection");
    fetcher->held += got;
    if (fetcher->held < 4 || fetcher->held < 4 + (size_t)be32(answer)) return;
    /* size, correlation, throttle, topics, name, partitions, index, error, HW, LSO, aborted, size */
    size_t name = (uint8_t)answer[16] << 8 | (uint8_t)answer[17];
    size_t at = 18 + name + 4 + 4;
    if (answer[at] || answer[at + 1]) fail("a fetch is answered with an error");
    at += 2 + 8 + 8;
    uint32_t aborted = be32(answer + at);
    if (aborted != 0 && aborted != UINT32_MAX) fail("aborted transactions are not expected");
    at += 4;
    size_t end = at + 4 + (be32(answer + at) == UINT32_MAX ? 0 : be32(answer + at));
    at += 4;
    if (end > fetcher->held) fail("a fetched answer is cut short");
    while (end - at >= 61) { /* whole record batches */
        uint64_t base = be64(answer + at);
        size_t size = 12 + (size_t)be32(answer + at + 8);
        if (size > end - at) break;
        fetcher->next = base + be32(answer + at + 23) + 1;
        at += size;
    }
    fetcher->held = 0;
    fetch_next(fetcher);
}

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double percentile(double percent) {
    if (!latency_count) return -1;
    size_t at = latency_count * percent / 100;
    return latencies[at < latency_count ? at : latency_count - 1];
}

static void watch(int epoll, int fd, uint64_t what) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = what};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) fail("epoll_ctl");
}

/* At 0 the timer is off. Either way it is no longer readable. */
static void set_timer(int timer, double at) {
    struct itimerspec when = {{0, 0}, {(time_t)at, (long)((at - (time_t)at) * 1e9)}};
    if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL)) fail("timerfd_settime");
}

static struct {
    int connections, in_flight, idle;
    double warm_up, seconds, rate; /* rate 0: as fast as answers come */
    const char *fetch_path;
} wanted = {.connections = 1, .in_flight = 1, .warm_up = 1, .seconds = 3};

static Line *lines;
static Fetcher fetcher = {.fd = -1};

/* The course of the run: times in seconds of the monotonic clock. */
static struct {
    int epoll, timer, measuring;
    double started, measured_from, end, stopped;
    double client_cpu, broker_cpu; /* at the start of the measured time */
    int64_t sent, total, answered, counted;
} run;

static void watch_for(Line *line, int is_full) {
    if (line->is_full == is_full) return;
    struct epoll_event event = {.events = EPOLLIN | (is_full ? EPOLLOUT : 0),
                                .data.u64 = AT_LINES + line->index};
    if (epoll_ctl(run.epoll, EPOLL_CTL_MOD, line->fd, &event)) fail("epoll_ctl");
    line->is_full = is_full;
}

static void parse(int argc, char **argv) {
    int option;
    while ((option = getopt(argc, argv, "c:i:w:s:r:n:e:p:f:o:t")) != -1) {
        switch (option) {
        case 'c': wanted.connections = atoi(optarg); break;
        case 'i': wanted.in_flight = atoi(optarg); break;
        case 'w': wanted.warm_up = atof(optarg); break;
        case 's': wanted.seconds = atof(optarg); break;
        case 'r': wanted.rate = atof(optarg); break;
        case 'n': wanted.idle = atoi(optarg); break;
        case 'e': error_at = atol(optarg); break;
        case 'f': wanted.fetch_path = optarg; break;
        case 'o': fetcher.offset_at = atol(optarg); break;
        case 'p':
            if (pid_count == MAX_PIDS) fail("too many processes");
            pids[pid_count++] = atoi(optarg);
            break;
#ifdef WITH_TLS
        case 't': secured = SSL_CTX_new(TLS_client_method()); break;
#endif
        default: exit(2);
        }
    }
    for (int i = optind; i < argc; i++) add_target(argv[i]);
    if (!target_count) fail("no target");
}

static void open_lines(size_t ring) {
    for (int i = 0; i < wanted.idle; i++) {
        Target *target = &targets[i % target_count];
        ask_once(open_socket(target), target, i / target_count % target->count);
    }
    lines = calloc(wanted.connections, sizeof(Line));
    for (int i = 0; i < wanted.connections; i++) {
        Line *line = &lines[i];
        line->target = &targets[i % target_count];
        line->index = i;
        /* The lines of a target begin at frames that are spread over all it has. */
        line->next = (size_t)(i / target_count) * line->target->count * target_count
                     / wanted.connections % line->target->count;
        line->fd = open_socket(line->target);
        line->sent_at = malloc(ring * sizeof(double));
        line->ring = ring;
        line->buffer = malloc(ANSWER_BYTES);
#ifdef WITH_TLS
        if (secured) shake_hands(line);
#endif
        watch(run.epoll, line->fd, AT_LINES + i);
    }
}

static void open_fetcher(void) {
    fetcher.frame = read_file(wanted.fetch_path, &fetcher.bytes);
    fetcher.buffer = malloc(FETCH_BYTES);
    fetcher.fd = open_socket(&targets[0]);
    watch(run.epoll, fetcher.fd, AT_FETCHER);
    fetch_next(&fetcher);
}

static void start(void) {
    run.started = now() + 0.01;
    run.measured_from = run.started + wanted.warm_up;
    run.end = run.measured_from + wanted.seconds;
    run.total = wanted.rate * (wanted.warm_up + wanted.seconds);
    run.client_cpu = own_cpu();
    run.broker_cpu = brokers_cpu();
    if (wanted.rate > 0) {
        watch(run.epoll, run.timer, AT_TIMER);
        set_timer(run.timer, run.started);
        return;
    }
    for (int k = 0; k < wanted.in_flight; k++)
        for (int i = 0; i < wanted.connections; i++) send_next(&lines[i], now());
}

static void send_what_is_due(double at) {
    while (run.sent < run.total && run.started + run.sent / wanted.rate <= at) {
        send_next(&lines[run.sent % wanted.connections], run.started + run.sent / wanted.rate);
        run.sent++;
    }
    /* The timer is not read: a read behind this could take the next tick as well. */
    set_timer(run.timer, run.sent < run.total ? run.started + run.sent / wanted.rate : 0);
}

static void on_fetched(void) {
    int64_t next = fetcher.next;
    take_fetched(&fetcher);
    double at = now();
    for (; next < fetcher.next; next++)
        if (run.measuring && next / wanted.rate >= wanted.warm_up)
            note_latency(at - run.started - next / wanted.rate);
}

static void on_answers(Line *line) {
    size_t count = take_answers(line);
    double at = now();
    run.answered += count;
    for (; count; count--) {
        double stamp = line->sent_at[line->head++ % line->ring];
        if (run.measuring) run.counted++;
        if (!wanted.fetch_path && run.measuring && stamp >= run.measured_from)
            note_latency(at - stamp);
        if (wanted.rate == 0) send_next(line, at);
    }
}

static void one_round(void) {
    struct epoll_event events[EVENTS];
    int ready = epoll_wait(run.epoll, events, EVENTS, 100);
    if (ready < 0 && errno != EINTR) fail("epoll_wait");
    double at = now();
    if (!run.measuring && at >= run.measured_from) {
        run.measuring = 1;
        run.measured_from = at;
        run.client_cpu = own_cpu();
        run.broker_cpu = brokers_cpu();
    }
    if (wanted.rate > 0 && run.sent < run.total) send_what_is_due(at);
    for (int i = 0; i < ready; i++) {
        uint64_t what = events[i].data.u64;
        if (what == AT_FETCHER)
            on_fetched();
        else if (what != AT_TIMER) {
            if (events[i].events & EPOLLOUT) send_due(&lines[what - AT_LINES]);
            if (events[i].events & ~EPOLLOUT) on_answers(&lines[what - AT_LINES]);
        }
    }
    at = now();
    int fetched = !wanted.fetch_path || fetcher.next >= run.total;
    int complete = wanted.rate > 0 && run.answered == run.total && fetched;
    if ((wanted.rate == 0 && at >= run.end) || complete || at >= run.end + DRAIN_LIMIT_S)
        run.stopped = at;
}

static void report(void) {
    double client = own_cpu() - run.client_cpu, broker = brokers_cpu() - run.broker_cpu;
    int64_t arrived = wanted.fetch_path ? fetcher.next : run.answered;
    int64_t missing = wanted.rate > 0 ? run.total - arrived : 0;
    qsort(latencies, latency_count, sizeof(float), by_value);
    printf("{\"requests\": %ld, \"seconds\": %.6f, \"client_cpu\": %.6f, \"broker_cpu\": %.6f, "
           "\"p50_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f, \"max_ms\": %.4f, "
           "\"unanswered\": %ld}\n",
           (long)run.counted, run.stopped - run.measured_from, client, broker, percentile(50),
           percentile(99), percentile(99.9), percentile(100), (long)missing);
}

int main(int argc, char **argv) {
    parse(argc, argv);
    run.epoll = epoll_create1(0);
    run.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    if (run.epoll < 0 || run.timer < 0) fail("epoll or timer");
    double requests = wanted.rate * (wanted.warm_up + wanted.seconds);
    open_lines(wanted.rate > 0 ? (size_t)requests + 1 : (size_t)wanted.in_flight);
    if (wanted.fetch_path) open_fetcher();
    start();
    while (!run.stopped) one_round();
    report();
    return 0;
}
