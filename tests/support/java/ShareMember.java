import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group (KIP-932): says what it gets, and acknowledges as the value asks.
 *
 * <p>BOOTSTRAP GROUP TOPIC implicit|explicit. Values: "release" is released at its first delivery,
 * "reject" is rejected, "slow MS" is kept for so long at its first delivery, "release always" is
 * released each time; all others are accepted. It leaves when its standard input ends.
 */
public final class ShareMember {
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
    boolean isExplicit = arguments[3].equals("explicit");
    Properties configs = new Properties();
    configs.put("bootstrap.servers", arguments[0]);
    configs.put("group.id", arguments[1]);
    configs.put("share.acknowledgement.mode", arguments[3]);
    StringDeserializer text = new StringDeserializer();
    try (KafkaShareConsumer<String, String> consumer =
        new KafkaShareConsumer<>(configs, text, text)) {
      consumer.setAcknowledgementCommitCallback(
          (offsets, error) -> {
            if (error != null) {
              System.out.printf("failed %s%n", error.getClass().getSimpleName());
            } else {
              offsets.forEach(
                  (partition, found) ->
                      found.forEach(
                          offset -> System.out.printf("stored %d%n", offset)));
            }
          });
      consumer.subscribe(List.of(arguments[2]));
      while (!isDone) {
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
          int count = record.deliveryCount().orElse((short) -1);
          System.out.printf(
              "got %d %d %d %s%n", record.partition(), record.offset(), count, record.value());
          System.out.flush();
          String value = record.value();
          if (value.startsWith("slow") && count == 1) {
            Thread.sleep(Long.parseLong(value.substring(5)));
          }
          if (isExplicit) {
            AcknowledgeType type = AcknowledgeType.ACCEPT;
            if (value.equals("reject")) {
              type = AcknowledgeType.REJECT;
            } else if (value.startsWith("release") && (count == 1 || value.endsWith("always"))) {
              type = AcknowledgeType.RELEASE;
            }
            consumer.acknowledge(record, type);
          }
        }
        consumer.commitSync();
      }
    }
    System.out.println("left");
  }
}
