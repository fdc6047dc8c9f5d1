import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.SharePartitionOffsetInfo;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A share group from its first record to its end, with Kafka's own clients; prints each step. */
public final class ShareGroupTour {
  private static final String TOPIC = "queue";
  private static final String GROUP = "workers";
  private static final int RECORDS = 20;

  public static void main(String[] arguments) throws Exception {
    Properties common = new Properties();
    common.put("bootstrap.servers", arguments[0]);
    try (Admin admin = Admin.create(common)) {
      admin.createTopics(List.of(new NewTopic(TOPIC, 2, (short) 1))).all().get();
      ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, GROUP);
      ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
      Collection<AlterConfigOp> set =
          List.of(new AlterConfigOp(earliest, AlterConfigOp.OpType.SET));
      admin.incrementalAlterConfigs(Map.of(group, set)).all().get();
      produce(common);
      consume(common);
      administer(admin);
    }
  }

  private static void produce(Properties common) {
    Properties of = new Properties();
    of.putAll(common);
    try (KafkaProducer<String, String> producer =
        new KafkaProducer<>(of, new StringSerializer(), new StringSerializer())) {
      for (int number = 0; number < RECORDS; number++) {
        producer.send(new ProducerRecord<>(TOPIC, number % 2, null, "" + number));
      }
    }
  }

  /** Each fifth record is released once, and accepted when it comes again. */
  private static void consume(Properties common) {
    Properties of = new Properties();
    of.putAll(common);
    of.put("group.id", GROUP);
    of.put("share.acknowledgement.mode", "explicit");
    Set<Integer> accepted = new TreeSet<>();
    Set<Integer> again = new TreeSet<>();
    int deliveries = 0;
    try (KafkaShareConsumer<String, String> consumer =
        new KafkaShareConsumer<>(of, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of(TOPIC));
      while (accepted.size() < RECORDS) {
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
          int number = Integer.parseInt(record.value());
          deliveries++;
          boolean first = record.deliveryCount().orElse((short) 0) == 1;
          if (number % 5 == 0 && first) {
            consumer.acknowledge(record, AcknowledgeType.RELEASE);
            continue;
          }
          if (!first) {
            again.add(number);
          }
          consumer.acknowledge(record, AcknowledgeType.ACCEPT);
          accepted.add(number);
        }
        consumer.commitSync();
      }
    }
    System.out.println("accepted " + accepted.size() + " deliveries " + deliveries);
    System.out.println("again " + again);
  }

  private static void administer(Admin admin) throws Exception {
    ShareGroupDescription described =
        admin.describeShareGroups(List.of(GROUP)).describedGroups().get(GROUP).get();
    System.out.println("state " + described.groupState() + " " + described.members().size());
    var shares = ListGroupsOptions.forShareGroups();
    System.out.println("listed " + names(admin, shares));
    System.out.println("lags " + lags(admin));
    TopicPartition first = new TopicPartition(TOPIC, 0);
    admin.alterShareGroupOffsets(GROUP, Map.of(first, 4L)).all().get();
    System.out.println("altered " + lags(admin));
    admin.deleteShareGroupOffsets(GROUP, Set.of(TOPIC)).all().get();
    System.out.println("deleted " + lags(admin));
    admin.deleteShareGroups(List.of(GROUP)).all().get();
    System.out.println("left " + names(admin, shares));
  }

  private static List<String> names(Admin admin, ListGroupsOptions options) throws Exception {
    List<String> found = new ArrayList<>();
    for (var group : admin.listGroups(options).all().get()) {
      found.add(group.groupId() + ":" + group.type().orElse(GroupType.UNKNOWN));
    }
    return found;
  }

  private static Map<String, String> lags(Admin admin) throws Exception {
    Map<String, String> found = new TreeMap<>();
    Map<TopicPartition, SharePartitionOffsetInfo> listed =
        admin
            .listShareGroupOffsets(Map.of(GROUP, new ListShareGroupOffsetsSpec()))
            .partitionsToOffsetInfo(GROUP)
            .get();
    listed.forEach(
        (partition, info) ->
            found.put(
                partition.toString(),
                info == null ? "none" : "" + info.lag().orElse(-1L)));
    return found;
  }
}
