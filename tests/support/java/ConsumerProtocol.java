import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A consumer of the consumer protocol (KIP-848): says what it is assigned and what it reads.
 *
 * <p>BOOTSTRAP GROUP SUBSCRIPTION INSTANCE: a topic, or a regular expression behind a ^; an instance
 * id, or -. It commits what it reads, and leaves when its standard input ends.
 */
public final class ConsumerProtocol {
  private static volatile boolean isDone;

  public static void main(String[] arguments) throws Exception {
    Thread watcher =
        new Thread(
            () -> {
              try {
                while (System.in.read() >= 0) {}
              } catch (java.io.IOException closed) {
                // As good as its end.
              }
              isDone = true;
            });
    watcher.setDaemon(true);
    watcher.start();
    Properties configs = new Properties();
    configs.put("bootstrap.servers", arguments[0]);
    configs.put("group.id", arguments[1]);
    configs.put("group.protocol", "consumer");
    configs.put("auto.offset.reset", "earliest");
    configs.put("enable.auto.commit", "false");
    if (!arguments[3].equals("-")) {
      configs.put("group.instance.id", arguments[3]);
    }
    StringDeserializer text = new StringDeserializer();
    try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(configs, text, text)) {
      ConsumerRebalanceListener listener =
          new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
              if (!partitions.isEmpty()) {
                consumer.commitSync();
              }
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}
          };
      if (arguments[2].startsWith("^")) {
        consumer.subscribe(new SubscriptionPattern(arguments[2].substring(1)), listener);
      } else {
        consumer.subscribe(List.of(arguments[2]), listener);
      }
      String before = null;
      while (!isDone) {
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
          System.out.printf("read %s-%d %d%n", record.topic(), record.partition(), record.offset());
        }
        consumer.commitSync();
        TreeSet<String> owned = new TreeSet<>();
        consumer.assignment().forEach(partition -> owned.add(partition.toString()));
        String now = "owns " + String.join(" ", owned);
        if (!now.equals(before)) {
          System.out.println(now);
          before = now;
        }
      }
    }
  }
}
