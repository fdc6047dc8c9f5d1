// A Java application with exactly-once: it copies a topic to another, transaction by transaction.
// Each line of its input is a number of records; it copies as many, and says so. Every third
// transaction is aborted, as is one that fails, and its records are copied again.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;

public class TransactionsOfVersion2 {
    private static KafkaProducer<byte[], byte[]> producer;
    private static KafkaConsumer<byte[], byte[]> consumer;
    private static int transactions = 0;

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        String from = args[1];
        String to = args[2];
        Properties common = new Properties();
        common.put("bootstrap.servers", bootstrap);
        common.put("reconnect.backoff.ms", "20");
        common.put("connections.max.idle.ms", args[3]);
        Properties ofProducer = (Properties) common.clone();
        String bytes = "org.apache.kafka.common.serialization.ByteArray";
        ofProducer.put("transactional.id", args[4]);
        ofProducer.put("linger.ms", "0");
        ofProducer.put("key.serializer", bytes + "Serializer");
        ofProducer.put("value.serializer", bytes + "Serializer");
        Properties ofConsumer = (Properties) common.clone();
        ofConsumer.put("group.id", args[4]);
        ofConsumer.put("enable.auto.commit", "false");
        ofConsumer.put("auto.offset.reset", "earliest");
        ofConsumer.put("isolation.level", "read_committed");
        ofConsumer.put("max.poll.records", "7");
        ofConsumer.put("key.deserializer", bytes + "Deserializer");
        ofConsumer.put("value.deserializer", bytes + "Deserializer");
        producer = new KafkaProducer<>(ofProducer);
        consumer = new KafkaConsumer<>(ofConsumer);
        producer.initTransactions();
        consumer.subscribe(List.of(from));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            int wanted = Integer.parseInt(line.trim());
            int copied = 0;
            while (copied < wanted) {
                copied += copySome(to);
            }
            System.out.println("copied " + copied);
        }
        producer.close();
        consumer.close();
    }

    private static int copySome(String to) {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
        if (records.isEmpty()) {
            return 0;
        }
        producer.beginTransaction();
        try {
            if (copy(records, to) && ++transactions % 3 != 0) {
                producer.commitTransaction();
                return records.count();
            }
        } catch (ProducerFencedException | OutOfOrderSequenceException error) {
            throw error; // the last thing that a producer does
        } catch (KafkaException error) {
            System.err.println("aborted: " + error);
        }
        producer.abortTransaction();
        Set<TopicPartition> assigned = consumer.assignment();
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(assigned);
        for (TopicPartition partition : assigned) {
            OffsetAndMetadata known = committed.get(partition);
            consumer.seek(partition, known == null ? 0 : known.offset());
        }
        return 0;
    }

    private static boolean copy(ConsumerRecords<byte[], byte[]> records, String to) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            producer.send(new ProducerRecord<>(to, record.partition(), null, record.value()));
            offsets.put(
                new TopicPartition(record.topic(), record.partition()),
                new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        return true;
    }
}
