/* The least that a broker can do for a small produce request: the yardstick beside which the CPU
 * of real ones stands.
 *
 *   server PORT DIRECTORY
 *
 * One epoll loop. It takes Produce v9 with one batch for one partition, as load.c sends them, checks
 * the batch's length, magic and CRC-32C, writes offset and epoch into it, appends it to the file of
 * its partition with one pwrite, and answers all requests of a connection that came together with
 * one send. No metadata, no index, no segments, no producers, no records, no other request; it ends
 * with a message at whatever it does not know. Little-endian machines only.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 256, BUFFER_BYTES = 1 << 18, ANSWERS_BYTES = 1 << 16, MAX_PARTITIONS = 64 };
enum { MAX_NAME = 126, MAX_ANSWER = 192, HEADER_BYTES = 61, LOG_OVERHEAD = 12, CRC_FROM = 21 };

typedef struct {
    char name[MAX_NAME + 1];
    uint32_t index;
    int file;
    int64_t next_offset, position;
} Partition;

typedef struct {
    int fd;
    size_t held;
    char buffer[BUFFER_BYTES];
} Line;

typedef struct {
    const char *at, *end;
} Reader;

static Partition partitions[MAX_PARTITIONS];
static int partition_count;
static const char *directory;
static char answers[ANSWERS_BYTES];
static size_t answers_held;

static void fail(const char *what) {
    fprintf(stderr, "server: %s (%s)\n", what, strerror(errno));
    exit(1);
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c(const char *data, size_t size) {
    uint64_t crc = 0xFFFFFFFF, word;
    for (; size >= 8; size -= 8, data += 8) {
        memcpy(&word, data, 8);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    for (; size; size--) crc = __builtin_ia32_crc32qi(crc, *data++);
    return ~(uint32_t)crc;
}
#else
static uint32_t crc32c(const char *data, size_t size) {
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t value = i;
            for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0x82F63B78 : 0);
            table[i] = value;
        }
    uint32_t crc = 0xFFFFFFFF;
    for (; size; size--) crc = crc >> 8 ^ table[(crc ^ (uint8_t)*data++) & 0xFF];
    return ~crc;
}
#endif

static const char *take(Reader *reader, size_t size) {
    if ((size_t)(reader->end - reader->at) < size) fail("a request is cut short");
    const char *at = reader->at;
    reader->at += size;
    return at;
}

static uint32_t take32(Reader *reader) {
    uint32_t value;
    memcpy(&value, take(reader, 4), 4);
    return be32toh(value);
}

static uint16_t take16(Reader *reader) {
    uint16_t value;
    memcpy(&value, take(reader, 2), 2);
    return be16toh(value);
}

/* An unsigned varint; of lengths it is one more than what it means. */
static uint32_t take_varint(Reader *reader) {
    uint32_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        uint8_t byte = *take(reader, 1);
        value |= (uint32_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return value;
    }
    fail("a varint does not end");
    return 0;
}

static Partition *partition_of(const char *name, size_t size, uint32_t index) {
    for (int i = 0; i < partition_count; i++)
        if (partitions[i].index == index && !partitions[i].name[size] &&
            !memcmp(partitions[i].name, name, size))
            return &partitions[i];
    if (partition_count == MAX_PARTITIONS) partition_count = 0; /* those of an earlier topic */
    Partition *partition = &partitions[partition_count++];
    if (partition->file > 0) close(partition->file);
    char path[512];
    memset(partition, 0, sizeof *partition);
    memcpy(partition->name, name, size);
    partition->index = index;
    if (snprintf(path, sizeof path, "%s/%.*s-%u", directory, (int)size, name, index) >= (int)sizeof path)
        fail("a path is too long");
    partition->file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (partition->file < 0) fail(path);
    return partition;
}

/* Append the batch; returns its offset. */
static int64_t append(Partition *partition, char *batch, size_t size) {
    uint32_t length, crc, last_delta;
    if (size < HEADER_BYTES || batch[16] != 2) fail("not a batch");
    memcpy(&length, batch + 8, 4);
    memcpy(&crc, batch + 17, 4);
    memcpy(&last_delta, batch + 23, 4);
    if (be32toh(length) + LOG_OVERHEAD != size) fail("not one batch");
    if (crc32c(batch + CRC_FROM, size - CRC_FROM) != be32toh(crc)) fail("a batch is damaged");
    int64_t offset = partition->next_offset;
    uint64_t base = htobe64(offset);
    memcpy(batch, &base, 8);
    memset(batch + 12, 0, 4);
    if (pwrite(partition->file, batch, size, partition->position) != (ssize_t)size) fail("pwrite");
    partition->position += size;
    partition->next_offset += be32toh(last_delta) + 1;
    return offset;
}

static void answer(uint32_t correlation, const char *name, size_t size, uint32_t index,
                   int64_t offset) {
    char *start = answers + answers_held, *at = start + 4;
    uint32_t value = htobe32(correlation);
    uint64_t base = htobe64(offset);
    memcpy(at, &value, 4), at += 4;
    *at++ = 0; /* tags */
    *at++ = 2; /* one topic */
    *at++ = size + 1;
    memcpy(at, name, size), at += size;
    *at++ = 2; /* one partition */
    value = htobe32(index);
    memcpy(at, &value, 4), at += 4;
    memset(at, 0, 2), at += 2; /* no error */
    memcpy(at, &base, 8), at += 8;
    memset(at, 0xFF, 8), at += 8; /* no time of the append */
    memset(at, 0, 8), at += 8;    /* the log's start */
    *at++ = 1;                    /* no errors of records */
    memset(at, 0, 1 + 1 + 1 + 4 + 1), at += 8; /* no message, tags, tags, throttle time, tags */
    value = htobe32(at - start - 4);
    memcpy(start, &value, 4);
    answers_held = at - answers;
}

static void serve(char *frame, size_t size) {
    Reader reader = {frame, frame + size};
    if (take16(&reader) != 0 || take16(&reader) != 9) fail("not Produce v9");
    uint32_t correlation = take32(&reader);
    take(&reader, take16(&reader)); /* the client's id */
    take_varint(&reader);           /* tags: none */
    if (take_varint(&reader) != 0) fail("a transaction");
    take(&reader, 2 + 4); /* acks, timeout */
    if (take_varint(&reader) != 2) fail("not one topic");
    size_t name_size = take_varint(&reader) - 1;
    if (name_size > MAX_NAME) fail("a name is too long");
    const char *name = take(&reader, name_size);
    if (take_varint(&reader) != 2) fail("not one partition");
    uint32_t index = take32(&reader);
    size_t batch_size = take_varint(&reader) - 1;
    char *batch = (char *)take(&reader, batch_size);
    Partition *partition = partition_of(name, name_size, index);
    answer(correlation, name, name_size, index, append(partition, batch, batch_size));
}

/* Whether the connection is still there. */
static int send_answers(int fd) {
    size_t held = answers_held;
    answers_held = 0;
    for (size_t sent = 0; sent < held;) {
        ssize_t done = send(fd, answers + sent, held - sent, MSG_NOSIGNAL);
        if (done <= 0) return 0;
        sent += done;
    }
    return 1;
}

/* Whether the connection is still there. */
static int receive(Line *line) {
    ssize_t got = recv(line->fd, line->buffer + line->held, BUFFER_BYTES - line->held, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return 1;
    if (got <= 0) return 0;
    line->held += got;
    size_t at = 0;
    while (line->held - at >= 4) {
        uint32_t size;
        memcpy(&size, line->buffer + at, 4);
        size = be32toh(size);
        if (size > BUFFER_BYTES - 4) fail("a request is too long");
        if (line->held - at < 4 + (size_t)size) break;
        if (answers_held > ANSWERS_BYTES - MAX_ANSWER && !send_answers(line->fd)) return 0;
        serve(line->buffer + at + 4, size);
        at += 4 + size;
    }
    line->held -= at;
    memmove(line->buffer, line->buffer + at, line->held);
    return send_answers(line->fd);
}

int main(int argc, char **argv) {
    if (argc != 3) fail("usage: server PORT DIRECTORY");
    directory = argv[2];
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address)) fail("bind");
    if (listen(listener, 1024)) fail("listen");
    struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = NULL}, events[EVENTS];
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &wanted)) fail("epoll_ctl");
    for (;;) {
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        if (ready < 0 && errno != EINTR) fail("epoll_wait");
        for (int i = 0; i < ready; i++) {
            Line *line = events[i].data.ptr;
            if (line) {
                if (receive(line)) continue;
                close(line->fd);
                free(line);
                continue;
            }
            line = malloc(sizeof *line);
            if (!line) fail("no memory");
            line->held = 0;
            line->fd = accept(listener, NULL, NULL);
            if (line->fd < 0) fail("accept");
            setsockopt(line->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            wanted.data.ptr = line;
            if (epoll_ctl(epoll, EPOLL_CTL_ADD, line->fd, &wanted)) fail("epoll_ctl");
        }
    }
}
