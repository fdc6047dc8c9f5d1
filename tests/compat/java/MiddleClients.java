/**
 * kafka-clients of 2017: writes 40 records a codec to a topic, reads a number of records from its
 * beginning in a group, and prints them. Arguments: bootstrap server, topic, group, records to read.
 */
import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

public class MiddleClients {
    static final String STRINGS = "org.apache.kafka.common.serialization.String";
    static final long TIMEOUT_MS = 30_000;

    public static void main(String[] arguments) throws Exception {
        for (String codec : new String[] {"none", "gzip", "snappy", "lz4"}) {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", arguments[0]);
            properties.put("key.serializer", STRINGS + "Serializer");
            properties.put("value.serializer", STRINGS + "Serializer");
            properties.put("compression.type", codec);
            properties.put("acks", "all");
            properties.put("linger.ms", "20");
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
                for (int i = 0; i < 40; i++)
                    producer.send(new ProducerRecord<>(arguments[1], 0, 1_500_000_000_000L + i, "key" + i, codec + " " + i));
            }
        }
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("group.id", arguments[2]);
        properties.put("auto.offset.reset", "earliest");
        properties.put("key.deserializer", STRINGS + "Deserializer");
        properties.put("value.deserializer", STRINGS + "Deserializer");
        int left = Integer.parseInt(arguments[3]);
        long deadline = System.currentTimeMillis() + TIMEOUT_MS;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            consumer.subscribe(Collections.singletonList(arguments[1]));
            while (left > 0 && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<String, String> one : consumer.poll(200)) {
                    System.out.println(one.offset() + "\t" + one.timestamp() + "\t" + one.key() + "\t" + one.value());
                    left--;
                }
            }
            consumer.commitSync();
        }
        if (left > 0) System.exit(1);
    }
}
