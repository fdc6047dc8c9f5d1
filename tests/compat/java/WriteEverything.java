/**
 * Writes all that a topic can hold with Apache Kafka's own clients. Arguments: bootstrap server, topic.
 *
 * The topic's message format goes from v0 over v1 to v2 while it is written to (brokers of
 * inter.broker.protocol.version below 3.0). Then: every codec, the time of the append, an idempotent
 * producer, transactions committed and aborted, with offsets of a group, and one that stays open.
 */
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class WriteEverything {
    static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};
    static final long START_MS = 1_700_000_000_000L;
    static String bootstrap;
    static String topic;
    static int number = 0;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = arguments[1];
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        try (Admin admin = Admin.create(properties)) {
            NewTopic created = new NewTopic(topic, 1, (short) 1);
            created.configs(Map.of("segment.bytes", "4000", "index.interval.bytes", "400",
                "message.format.version", "0.9.0"));
            admin.createTopics(List.of(created)).all().get();
            for (String version : List.of("0.9.0", "0.10.2")) {
                alter(admin, "message.format.version", version);
                for (int codec = 0; codec < 4; codec++) plain(CODECS[codec], false, false);
            }
            alter(admin, "message.format.version", "2.8");
            for (String codec : CODECS) plain(codec, false, true);
            for (String codec : CODECS) plain(codec, true, true);
            alter(admin, "message.timestamp.type", "LogAppendTime");
            plain("gzip", true, true);
            alter(admin, "message.timestamp.type", "CreateTime");
        }
        try (KafkaProducer<byte[], byte[]> one = producer("none", true, "one");
             KafkaProducer<byte[], byte[]> two = producer("lz4", true, "two")) {
            one.initTransactions();
            two.initTransactions();
            for (int round = 0; round < 6; round++) {
                one.beginTransaction();
                two.beginTransaction();
                send(one, 3, true);
                send(two, 4, true);
                one.flush();
                two.flush();
                send(one, 2, true);
                if (round % 3 == 0) one.abortTransaction(); else one.commitTransaction();
                two.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(100 + round)),
                    new ConsumerGroupMetadata("everything"));
                if (round % 2 == 0) two.abortTransaction(); else two.commitTransaction();
            }
        }
        plain("snappy", true, true);
        KafkaProducer<byte[], byte[]> open = producer("none", true, "open");
        open.initTransactions();
        open.beginTransaction();
        send(open, 3, true);
        open.flush();
        plain("zstd", true, true);
        System.out.println(number);
        System.out.flush();
        Runtime.getRuntime().halt(0);  // the open transaction stays open
    }

    static void alter(Admin admin, String name, String value) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        AlterConfigOp op = new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(op))).all().get();
        Thread.sleep(500);  // brokers hear of it through ZooKeeper
    }

    static KafkaProducer<byte[], byte[]> producer(String codec, boolean idempotent, String transactionalId) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("compression.type", codec);
        properties.put("enable.idempotence", String.valueOf(idempotent));
        properties.put("linger.ms", "20");
        if (transactionalId != null) {
            properties.put("transactional.id", transactionalId);
            properties.put("transaction.timeout.ms", "900000");
        }
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static void plain(String codec, boolean idempotent, boolean headers) {
        try (KafkaProducer<byte[], byte[]> producer = producer(codec, idempotent, null)) {
            for (int batch = 0; batch < 3; batch++) {
                send(producer, 1 + 4 * batch, headers);
                producer.flush();
            }
        }
    }

    static void send(KafkaProducer<byte[], byte[]> producer, int count, boolean headers) {
        for (int i = 0; i < count; i++) {
            int n = number++;
            byte[] key = n % 4 == 3 ? null : ("key" + n % 7).getBytes();
            byte[] value = n % 11 == 5 && key != null ? null : ("value " + n + " again and again").getBytes();
            ProducerRecord<byte[], byte[]> record =
                new ProducerRecord<>(topic, 0, START_MS + 10L * n - 35L * (n % 3), key, value);
            if (headers && n % 2 == 0) record.headers().add("name", ("x" + n).getBytes());
            producer.send(record);
        }
    }
}
