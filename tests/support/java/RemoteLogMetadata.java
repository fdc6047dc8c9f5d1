import java.util.HexFormat;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataTopicPartitioner;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteState;

/** Golden values of __remote_log_metadata, and partitions of it: see remote_log_metadata.py. */
public final class RemoteLogMetadata {
  private static final RemoteLogMetadataSerde SERDE = new RemoteLogMetadataSerde();

  public static void main(String[] arguments) {
    for (int number = 0; number < 40; number++) {
      TopicIdPartition partition = partition(number);
      int[] found = new int[3];
      int[] counts = {1, 7, 50};
      for (int i = 0; i < 3; i++) {
        found[i] = new RemoteLogMetadataTopicPartitioner(counts[i]).metadataPartition(partition);
      }
      System.out.printf("partition %d %d %d %d%n", number, found[0], found[1], found[2]);
    }
    for (int number = 0; number < 20; number++) {
      RemoteLogSegmentId id = new RemoteLogSegmentId(partition(number), new Uuid(number, -number));
      Optional<CustomMetadata> custom =
          number % 3 == 0 ? Optional.empty() : Optional.of(new CustomMetadata(new byte[number]));
      TreeMap<Integer, Long> epochs = new TreeMap<>();
      for (int epoch = 0; epoch <= number % 4; epoch++) {
        epochs.put(epoch * 300 + number, number * 1000L + epoch * 10);
      }
      RemoteLogSegmentState state = RemoteLogSegmentState.forId((byte) (number % 4));
      RemoteLogSegmentMetadata segment =
          new RemoteLogSegmentMetadata(
              id, number * 1000L, number * 1000L + 999, 1700000000000L + number, number,
              1700000001000L + number, 1048576 * (number + 1), custom, state, epochs);
      print("segment", number, SERDE.serialize(segment));
      RemoteLogSegmentMetadataUpdate update =
          new RemoteLogSegmentMetadataUpdate(id, 1700000002000L + number, custom, state, number);
      print("update", number, SERDE.serialize(update));
      RemotePartitionDeleteMetadata delete =
          new RemotePartitionDeleteMetadata(
              id.topicIdPartition(), RemotePartitionDeleteState.forId((byte) (number % 3)),
              1700000003000L + number, number);
      print("delete", number, SERDE.serialize(delete));
    }
  }

  private static TopicIdPartition partition(int number) {
    Uuid id = new Uuid(0x9E3779B97F4A7C15L * (number + 1), 0xC2B2AE3D27D4EB4FL * (number + 3));
    return new TopicIdPartition(id, new TopicPartition("thema-ä-" + number, number * 37));
  }

  private static void print(String kind, int number, byte[] value) {
    System.out.printf("%s %d %s%n", kind, number, HexFormat.of().formatHex(value));
  }
}
