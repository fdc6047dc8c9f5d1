import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.storage.LocalTieredStorage;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;

/**
 * Kafka's LocalTieredStorage in a directory, a command for each line of standard input.
 *
 * <p>"copy", "fetch" or "delete", then topic, partition, topic id, segment id, start offset, size;
 * "copy" has the directory with its files as well. "fetch" answers with the hex of the segment and
 * of each index, "-" for one that is not there; the others with "done".
 */
public final class TieredFolders {
  public static void main(String[] arguments) throws Exception {
    LocalTieredStorage storage = new LocalTieredStorage();
    Map<String, Object> configs = new HashMap<>();
    configs.put("dir", arguments[0]);
    configs.put("broker.id", 1);
    storage.configure(configs);
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    String line;
    while ((line = input.readLine()) != null) {
      System.out.println(answer(storage, line.split(" ")));
    }
  }

  private static String answer(LocalTieredStorage storage, String[] words) throws Exception {
    TopicIdPartition partition =
        new TopicIdPartition(
            Uuid.fromString(words[3]), new TopicPartition(words[1], Integer.parseInt(words[2])));
    long start = Long.parseLong(words[5]);
    RemoteLogSegmentMetadata metadata =
        new RemoteLogSegmentMetadata(
            new RemoteLogSegmentId(partition, Uuid.fromString(words[4])), start, start + 10, 0, 1,
            0, Integer.parseInt(words[6]), Map.of(0, start));
    switch (words[0]) {
      case "copy":
        Path folder = Paths.get(words[7]);
        Path aborted = folder.resolve("TRANSACTION");
        storage.copyLogSegmentData(
            metadata,
            new LogSegmentData(
                folder.resolve("log"), folder.resolve("OFFSET"), folder.resolve("TIMESTAMP"),
                Files.exists(aborted) ? Optional.of(aborted) : Optional.empty(),
                folder.resolve("PRODUCER_SNAPSHOT"),
                ByteBuffer.wrap(Files.readAllBytes(folder.resolve("LEADER_EPOCH")))));
        return "done";
      case "delete":
        storage.deleteLogSegmentData(metadata);
        return "done";
      default:
        StringBuilder found = new StringBuilder(hex(storage.fetchLogSegment(metadata, 0)));
        for (IndexType type : IndexType.values()) {
          found.append(' ');
          try {
            found.append(hex(storage.fetchIndex(metadata, type)));
          } catch (RemoteResourceNotFoundException missing) {
            found.append('-');
          }
        }
        return found.toString();
    }
  }

  private static String hex(InputStream stream) throws Exception {
    try (stream) {
      return HexFormat.of().formatHex(stream.readAllBytes());
    }
  }
}
