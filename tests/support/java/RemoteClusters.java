import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** What MirrorMaker 2's own client reads at a target: arguments are its address, an alias, a group. */
public class RemoteClusters {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", arguments[0]);
        String alias = arguments[1];
        System.out.println("upstream " + new TreeSet<>(RemoteClusterUtils.upstreamClusters(settings)));
        System.out.println("hops " + RemoteClusterUtils.replicationHops(settings, alias));
        System.out.println("heartbeats " + new TreeSet<>(RemoteClusterUtils.heartbeatTopics(settings)));
        System.out.println("checkpoints " + new TreeSet<>(RemoteClusterUtils.checkpointTopics(settings)));
        Map<String, String> offsets = new TreeMap<>();
        Map<TopicPartition, OffsetAndMetadata> found = RemoteClusterUtils.translateOffsets(
            settings, alias, arguments[2], Duration.ofSeconds(30));
        found.forEach((place, offset) -> offsets.put(place.toString(), offset.offset() + " " + offset.metadata()));
        offsets.forEach((place, offset) -> System.out.println("offset " + place + " " + offset));
    }
}
