/**
 * The clients of Kafka 0.8.2.2 on a leash: reads commands from standard input, one a line, and answers
 * each with lines of its own and a last line "." (or "! reason" where it failed).
 *
 * Arguments: the broker's host and port, and the connect string of ZooKeeper.
 */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Future;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.common.OffsetAndMetadata;
import kafka.common.OffsetMetadataAndError;
import kafka.common.TopicAndPartition;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.KafkaStream;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.javaapi.producer.Producer;
import kafka.message.MessageAndMetadata;
import kafka.message.MessageAndOffset;
import kafka.producer.KeyedMessage;
import kafka.producer.ProducerConfig;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

public class OldClients {
    static final int TIMEOUT_MS = 30_000;
    static String host;
    static int port;
    static String zookeeper;
    static final Map<String, Reader> readers = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        host = arguments[0];
        port = Integer.parseInt(arguments[1]);
        zookeeper = arguments[2];
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                run(line.split(" "));
                System.out.println(".");
            } catch (Throwable problem) {
                problem.printStackTrace();
                System.out.println("! " + String.valueOf(problem).replace('\n', ' '));
            }
            System.out.flush();
        }
        for (Reader reader : readers.values()) reader.connector.shutdown();
        System.exit(0);
    }

    static void run(String[] words) throws Exception {
        switch (words[0]) {
            case "scala-produce": scalaProduce(words[1], words[2], Integer.parseInt(words[3])); break;
            case "java-produce": javaProduce(words[1], words[2], Integer.parseInt(words[3])); break;
            case "fetch": fetch(words[1], Long.parseLong(words[2]), Integer.parseInt(words[3])); break;
            case "offsets": offsets(words[1], Long.parseLong(words[2])); break;
            case "commit": commit(words); break;
            case "committed": committed(words); break;
            case "consume": readers.put(words[1], new Reader(words[1], words[2], words[3], words[4])); break;
            case "read": readers.get(words[1]).print(Integer.parseInt(words[2])); break;
            case "save": readers.get(words[1]).connector.commitOffsets(); break;
            case "leave": readers.remove(words[1]).connector.shutdown(); break;
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    static byte[] value(String name, int number) {
        // Long enough, and alike enough, for a codec to make something of it.
        StringBuilder text = new StringBuilder(name + "-" + number + " ");
        while (text.length() < 60) text.append("again and ");
        return text.toString().getBytes();
    }

    static void scalaProduce(String topic, String codec, int count) {
        Properties properties = new Properties();
        properties.put("metadata.broker.list", host + ":" + port);
        properties.put("serializer.class", "kafka.serializer.DefaultEncoder");
        properties.put("request.required.acks", "-1");
        properties.put("compression.codec", codec);
        Producer<byte[], byte[]> producer = new Producer<>(new ProducerConfig(properties));
        List<KeyedMessage<byte[], byte[]>> messages = new ArrayList<>();
        for (int i = 0; i < count; i++)
            messages.add(new KeyedMessage<>(topic, ("key" + i).getBytes(), value("scala", i)));
        producer.send(messages);
        producer.close();
    }

    static void javaProduce(String topic, String codec, int count) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", host + ":" + port);
        properties.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        properties.put("acks", "all");
        properties.put("compression.type", codec);
        properties.put("linger.ms", "50");
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int i = 0; i < count; i++)
            sent.add(producer.send(new ProducerRecord<>(topic, ("key" + i).getBytes(), value("java", i))));
        for (Future<RecordMetadata> one : sent) one.get();
        producer.close();
    }

    static SimpleConsumer simple() {
        return new SimpleConsumer(host, port, TIMEOUT_MS, 1 << 16, "simple");
    }

    static String text(ByteBuffer buffer) {
        if (buffer == null) return "null";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return new String(bytes).trim();
    }

    /** All messages of partition 0 from an offset on, in fetches of a given size. */
    static void fetch(String topic, long offset, int size) {
        SimpleConsumer consumer = simple();
        try {
            while (true) {
                kafka.javaapi.FetchResponse response = consumer.fetch(
                    new FetchRequestBuilder().clientId("simple").addFetch(topic, 0, offset, size).build());
                if (response.hasError()) {
                    System.out.println("error " + response.errorCode(topic, 0));
                    return;
                }
                long before = offset;
                for (MessageAndOffset one : response.messageSet(topic, 0)) {
                    if (one.offset() < offset) continue;
                    System.out.println(one.offset() + "\t" + text(one.message().key()) + "\t"
                        + text(one.message().payload()));
                    offset = one.nextOffset();
                }
                if (offset >= response.highWatermark(topic, 0)) return;
                if (offset == before) {
                    System.out.println("stuck at " + offset);
                    return;
                }
            }
        } finally {
            consumer.close();
        }
    }

    static void offsets(String topic, long time) {
        TopicAndPartition partition = new TopicAndPartition(topic, 0);
        SimpleConsumer consumer = simple();
        kafka.javaapi.OffsetResponse response = consumer.getOffsetsBefore(new kafka.javaapi.OffsetRequest(
            Collections.singletonMap(partition, new PartitionOffsetRequestInfo(time, 10)),
            kafka.api.OffsetRequest.CurrentVersion(), "simple"));
        for (long offset : response.offsets(topic, 0)) System.out.println(offset);
        consumer.close();
    }

    static void commit(String[] words) {
        TopicAndPartition partition = new TopicAndPartition(words[2], 0);
        SimpleConsumer consumer = simple();
        kafka.javaapi.OffsetCommitResponse response = consumer.commitOffsets(new kafka.javaapi.OffsetCommitRequest(
            words[1],
            new HashMap<>(Map.of(partition, new OffsetAndMetadata(Long.parseLong(words[3]), "", -1))),
            1, "simple", Short.parseShort(words[4])));
        System.out.println(response.errors().get(partition));
        consumer.close();
    }

    static void committed(String[] words) {
        TopicAndPartition partition = new TopicAndPartition(words[2], 0);
        SimpleConsumer consumer = simple();
        OffsetMetadataAndError found = consumer.fetchOffsets(new kafka.javaapi.OffsetFetchRequest(
            words[1], List.of(partition), Short.parseShort(words[3]), 1, "simple")).offsets().get(partition);
        System.out.println(found.offset() + " " + found.error());
        consumer.close();
    }

    /** A high-level consumer with a thread that collects what its stream gives. */
    static class Reader {
        final ConsumerConnector connector;
        final ConcurrentLinkedQueue<String> found = new ConcurrentLinkedQueue<>();

        Reader(String name, String group, String topic, String storage) {
            Properties properties = new Properties();
            properties.put("zookeeper.connect", zookeeper);
            properties.put("group.id", group);
            properties.put("consumer.id", name);
            properties.put("auto.offset.reset", "smallest");
            properties.put("auto.commit.enable", "false");
            properties.put("offsets.storage", storage);
            properties.put("dual.commit.enabled", "false");
            properties.put("rebalance.backoff.ms", "300");
            properties.put("rebalance.max.retries", "20");
            connector = kafka.consumer.Consumer.createJavaConsumerConnector(new ConsumerConfig(properties));
            KafkaStream<byte[], byte[]> stream =
                connector.createMessageStreams(Collections.singletonMap(topic, 1)).get(topic).get(0);
            Thread thread = new Thread(() -> {
                for (MessageAndMetadata<byte[], byte[]> one : stream)
                    found.add(one.partition() + "\t" + one.offset() + "\t" + new String(one.message()).trim());
            });
            thread.setDaemon(true);
            thread.start();
        }

        /** The next messages, as soon as there are so many. */
        void print(int count) throws InterruptedException {
            long deadline = System.currentTimeMillis() + TIMEOUT_MS;
            while (found.size() < count) {
                if (System.currentTimeMillis() > deadline)
                    throw new IllegalStateException(found.size() + " messages instead of " + count);
                Thread.sleep(10);
            }
            for (int i = 0; i < count; i++) System.out.println(found.poll());
        }
    }
}
