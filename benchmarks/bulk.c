/* Bulk loads through librdkafka, without Python in between.
 *
 *   bulk produce BOOTSTRAP TOPIC RECORDS BYTES [SETTING=VALUE...]
 *   bulk consume BOOTSTRAP TOPIC RECORDS BYTES PARTITIONS [SETTING=VALUE...]
 *
 * Records have so many BYTES and no key. They are text of random words, so that codecs find what they find
 * in logs and JSON, neither rubbish nor one letter. Linked with the librdkafka that confluent-kafka
 * brings along; that comes without headers, so the few functions used are declared here (they are
 * of its stable public interface). Prints one line of JSON.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *private_data;
} rd_kafka_message_t;

rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *,
                                 void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *));
rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *, void *);
int rd_kafka_produce(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *);
int rd_kafka_poll(rd_kafka_t *, int);
int rd_kafka_flush(rd_kafka_t *, int);
int rd_kafka_last_error(void);
const char *rd_kafka_err2str(int);
rd_kafka_queue_t *rd_kafka_queue_new(rd_kafka_t *);
int rd_kafka_consume_start_queue(rd_kafka_topic_t *, int32_t, int64_t, rd_kafka_queue_t *);
ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t);
void rd_kafka_message_destroy(rd_kafka_message_t *);

enum { PRODUCER = 0, CONSUMER = 1, QUEUE_FULL = -184, PARTITION_UNASSIGNED = -1 };
enum { VARIETY = 4096, TAKE = 100000, LIMIT_MS = 120000, END_OF_PARTITION = -191 };

static long delivered, failed;
static size_t record_bytes;
static int first_error;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "bulk: %s: %s\n", what, why);
    exit(1);
}

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    if (message->err) {
        failed++;
        first_error = first_error ? first_error : message->err;
    } else
        delivered++;
}

static rd_kafka_t *new_client(int kind, const char *bootstrap, char **settings, int count) {
    char reason[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap, reason, sizeof reason))
        fail("bootstrap.servers", reason);
    for (int i = 0; i < count; i++) {
        char *value = strchr(settings[i], '=');
        if (!value) fail(settings[i], "is not SETTING=VALUE");
        *value++ = 0;
        if (rd_kafka_conf_set(conf, settings[i], value, reason, sizeof reason))
            fail(settings[i], reason);
    }
    if (kind == PRODUCER) rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *client = rd_kafka_new(kind, conf, reason, sizeof reason);
    if (!client) fail("rd_kafka_new", reason);
    return client;
}

static char *make_records(void) {
    static char words[512][12];
    uint64_t random = 88172645463325252u;
    char *records = malloc(VARIETY * record_bytes);
    if (!records) fail("records", "no memory");
    for (int i = 0; i < 512; i++) {
        int length = 3 + i % 8;
        for (int j = 0; j < length; j++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            words[i][j] = 'a' + random % 26;
        }
    }
    for (char *at = records; at < records + VARIETY * record_bytes;) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        for (const char *word = words[random % 512]; *word; word++)
            if (at < records + VARIETY * record_bytes) *at++ = *word;
        if (at < records + VARIETY * record_bytes) *at++ = ' ';
    }
    return records;
}

static void produce(rd_kafka_t *client, const char *topic_name, long records) {
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, topic_name, NULL);
    char *values = make_records();
    for (long i = 0; i < records; i++) {
        void *value = values + (i % VARIETY) * record_bytes;
        while (rd_kafka_produce(topic, PARTITION_UNASSIGNED, 0, value, record_bytes, 0, 0, 0)) {
            if (rd_kafka_last_error() != QUEUE_FULL)
                fail("produce", rd_kafka_err2str(rd_kafka_last_error()));
            rd_kafka_poll(client, 10);
        }
        if (i % 1024 == 0) rd_kafka_poll(client, 0);
    }
    rd_kafka_flush(client, LIMIT_MS);
    if (failed) fail("delivery", rd_kafka_err2str(first_error));
    if (delivered != records) fail("delivery", "not all records are acknowledged in time");
}

static void consume(rd_kafka_t *client, const char *topic_name, long records, int partitions) {
    static rd_kafka_message_t *messages[TAKE];
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, topic_name, NULL);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    for (int i = 0; i < partitions; i++)
        if (rd_kafka_consume_start_queue(topic, i, 0, queue))
            fail("consume", rd_kafka_err2str(rd_kafka_last_error()));
    double limit = seconds_of(CLOCK_MONOTONIC) + LIMIT_MS / 1e3;
    while (delivered < records) {
        ssize_t count = rd_kafka_consume_batch_queue(queue, 10, messages, TAKE);
        for (ssize_t i = 0; i < count; i++) {
            if (messages[i]->err && messages[i]->err != END_OF_PARTITION)
                fail("consume", rd_kafka_err2str(messages[i]->err));
            delivered += !messages[i]->err;
            rd_kafka_message_destroy(messages[i]);
        }
        if (seconds_of(CLOCK_MONOTONIC) > limit) fail("consume", "not all records came in time");
    }
}

int main(int argc, char **argv) {
    if (argc < 6) return 2;
    int producing = !strcmp(argv[1], "produce");
    int settings = producing ? 6 : 7;
    if (argc < settings) return 2;
    long records = atol(argv[4]);
    record_bytes = atol(argv[5]);
    rd_kafka_t *client = new_client(producing ? PRODUCER : CONSUMER, argv[2], argv + settings,
                                    argc - settings);
    double started = seconds_of(CLOCK_MONOTONIC);
    if (producing)
        produce(client, argv[3], records);
    else
        consume(client, argv[3], records, atoi(argv[6]));
    printf("{\"seconds\": %.6f, \"client_cpu\": %.6f, \"megabytes\": %.6f}\n",
           seconds_of(CLOCK_MONOTONIC) - started, seconds_of(CLOCK_PROCESS_CPUTIME_ID),
           records * (double)record_bytes / 1e6);
    fflush(stdout);
    _Exit(0); /* closing the client would wait for what nobody needs any more */
}
