import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts words with Kafka Streams in the streams group protocol: a repartition topic, and a store
 * with a changelog.
 *
 * <p>BOOTSTRAP APPLICATION INPUT OUTPUT STATE-DIRECTORY [SERVER]. It says its state and its tasks,
 * and ends with its standard input.
 */
public final class StreamsWordCount {
  public static void main(String[] arguments) throws Exception {
    Properties configs = new Properties();
    configs.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
    configs.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
    configs.put("group.protocol", "streams");
    configs.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
    configs.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    configs.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
    configs.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    configs.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    configs.put("auto.offset.reset", "earliest");
    configs.put(StreamsConfig.consumerPrefix("metadata.max.age.ms"), 1000);
    configs.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 10_000);
    if (arguments.length > 5) {
      configs.put(StreamsConfig.APPLICATION_SERVER_CONFIG, arguments[5]);
    }
    StreamsBuilder builder = new StreamsBuilder();
    KStream<String, String> lines = builder.stream(arguments[2]);
    lines
        .flatMapValues(line -> Arrays.asList(line.split(" ")))
        .groupBy((key, word) -> word)
        .count(
            Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String())
                .withValueSerde(Serdes.Long()))
        .toStream()
        .mapValues(count -> Long.toString(count))
        .to(arguments[3]);
    KafkaStreams streams = new KafkaStreams(builder.build(), configs);
    streams.setUncaughtExceptionHandler(
        problem -> {
          System.out.println("failed " + problem);
          return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler
              .StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
    streams.setStateListener((now, before) -> System.out.println("state " + now));
    streams.start();
    Thread reporter = new Thread(() -> report(streams));
    reporter.setDaemon(true);
    reporter.start();
    while (System.in.read() >= 0) {}
    streams.close(Duration.ofSeconds(30));
    System.out.println("closed");
  }

  private static void report(KafkaStreams streams) {
    String before = "";
    while (true) {
      TreeSet<String> tasks = new TreeSet<>();
      for (ThreadMetadata thread : streams.metadataForLocalThreads()) {
        thread.activeTasks().forEach(task -> tasks.add(task.taskId().toString()));
        thread.standbyTasks().forEach(task -> tasks.add("standby:" + task.taskId()));
      }
      String now = "tasks " + String.join(" ", tasks);
      if (!now.equals(before)) {
        System.out.println(now);
        before = now;
      }
      try {
        Thread.sleep(100);
      } catch (InterruptedException end) {
        return;
      }
    }
  }
}
