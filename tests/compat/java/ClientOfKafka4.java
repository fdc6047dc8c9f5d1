import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/**
 * A producer, a consumer and an administrator of Kafka 4, which push their metrics.
 *
 * <p>Prints a line for each step; the consumer stays until standard input ends.
 */
public final class ClientOfKafka4 {
  private static final TopicPartition PARTITION = new TopicPartition("by-id", 0);

  public static void main(String[] arguments) throws Exception {
    Properties all = new Properties();
    all.put("bootstrap.servers", arguments[0]);
    all.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
    all.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
    all.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
    all.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
    all.put("group.id", "of-kafka-4");
    all.put("auto.offset.reset", "earliest");
    try (Admin admin = Admin.create(all)) {
      subscribe(admin);
      admin.createTopics(List.of(new NewTopic("by-id", 1, (short) 1))).all().get();
      produce(all);
      try (KafkaConsumer<String, String> consumer = consumer(all)) {
        consume(consumer);
        describe(admin);
        while (System.in.available() == 0) {
          consumer.poll(Duration.ofMillis(100));
        }
      }
    }
  }

  private static void subscribe(Admin admin) throws Exception {
    ConfigResource name = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "everything");
    admin
        .incrementalAlterConfigs(
            Map.of(
                name,
                List.of(
                    new AlterConfigOp(new ConfigEntry("metrics", "*"), AlterConfigOp.OpType.SET),
                    new AlterConfigOp(
                        new ConfigEntry("interval.ms", "300"), AlterConfigOp.OpType.SET))))
        .all()
        .get();
    while (admin.listConfigResources().all().get().stream()
        .noneMatch(found -> found.name().equals("everything"))) {
      Thread.sleep(50);
    }
    System.out.println("subscribed");
  }

  private static void produce(Properties all) throws Exception {
    try (KafkaProducer<String, String> producer = new KafkaProducer<>(all)) {
      for (int number = 0; number < 100; number++) {
        producer.send(new ProducerRecord<>("by-id", "key", "value " + number)).get();
      }
    }
    System.out.println("produced");
  }

  private static KafkaConsumer<String, String> consumer(Properties all) {
    Properties own = new Properties();
    own.putAll(all);
    own.put("client.id", "consumer-of-kafka-4");
    KafkaConsumer<String, String> consumer = new KafkaConsumer<>(own);
    consumer.subscribe(List.of("by-id"));
    return consumer;
  }

  private static void consume(KafkaConsumer<String, String> consumer) {
    int read = 0;
    while (read < 100) {
      for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
        if (!record.value().equals("value " + read)) {
          throw new IllegalStateException(record + " in the place of " + read);
        }
        read++;
      }
      consumer.commitSync();
    }
    System.out.println("committed " + consumer.committed(java.util.Set.of(PARTITION)).get(PARTITION).offset());
  }

  private static void describe(Admin admin) throws Exception {
    long committed =
        admin
            .listConsumerGroupOffsets("of-kafka-4")
            .partitionsToOffsetAndMetadata()
            .get()
            .get(PARTITION)
            .offset();
    ListOffsetsResultInfo pending =
        admin
            .listOffsets(Map.of(PARTITION, OffsetSpec.earliestPendingUpload()))
            .partitionResult(PARTITION)
            .get();
    int transactions =
        admin
            .listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("no.*"))
            .all()
            .get()
            .size();
    int nodes = admin.describeCluster().nodes().get().size();
    System.out.println(
        "described " + committed + " " + pending.offset() + " " + transactions + " " + nodes);
  }
}
