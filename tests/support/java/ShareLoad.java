import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * BOOTSTRAP GROUP TOPIC RECORDS: accepts so many records of a share group, and says how many
 * milliseconds that took from the first one on.
 */
public final class ShareLoad {
  public static void main(String[] arguments) {
    Properties configs = new Properties();
    configs.put("bootstrap.servers", arguments[0]);
    configs.put("group.id", arguments[1]);
    ByteArrayDeserializer bytes = new ByteArrayDeserializer();
    try (KafkaShareConsumer<byte[], byte[]> consumer =
        new KafkaShareConsumer<>(configs, bytes, bytes)) {
      consumer.subscribe(List.of(arguments[2]));
      long wanted = Long.parseLong(arguments[3]);
      long got = 0;
      long start = 0;
      while (got < wanted) {
        int count = consumer.poll(Duration.ofMillis(500)).count();
        if (got == 0 && count > 0) {
          start = System.nanoTime();
        }
        got += count;
      }
      consumer.commitSync();
      System.out.println((System.nanoTime() - start) / 1_000_000);
    }
  }
}
