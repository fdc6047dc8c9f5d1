import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

/**
 * Assigns as the leader of a group does: a case a line, its assignment a line; see
 * tests/properties/client/consumer/test_assignors.py for both.
 */
public class Assignments {
    public static void main(String[] arguments) throws Exception {
        String all = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        StringBuilder out = new StringBuilder();
        for (String line : all.split("\n")) {
            try {
                out.append(answer(line)).append('\n');
            } catch (RuntimeException e) {
                out.append("failed: ").append(e).append('\n');
            }
        }
        System.out.print(out);
    }

    private static String answer(String line) {
        String[] fields = line.split("\t", -1);
        List<Node> nodes = new ArrayList<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : words(fields[1], ";")) {
            String[] named = topic.split("=", -1);
            int number = 0;
            for (String racks : named[1].split(",", -1)) {
                List<Node> replicas = new ArrayList<>();
                for (String rack : words(racks, "/")) {
                    replicas.add(new Node(nodes.size(), "host", 1, rack));
                    nodes.add(replicas.get(replicas.size() - 1));
                }
                Node[] array = replicas.toArray(new Node[0]);
                Node leader = array.length == 0 ? null : array[0];
                partitions.add(new PartitionInfo(named[0], number++, leader, array, array));
            }
        }
        Map<String, Subscription> members = new HashMap<>();
        for (String member : words(fields[2], ";")) {
            String[] parts = member.split("\\|", -1);
            ByteBuffer data = ByteBuffer.wrap(Base64.getDecoder().decode(parts[1]));
            Subscription subscription = ConsumerProtocol.deserializeSubscription(data);
            subscription.setGroupInstanceId(Optional.of(parts[2]).filter(id -> !id.isEmpty()));
            members.put(parts[0], subscription);
        }
        Cluster cluster = new Cluster("c", nodes, partitions, Set.of(), new HashSet<>());
        Map<String, Assignment> found = new TreeMap<>(
            assignor(fields[0]).assign(cluster, new GroupSubscription(members)).groupAssignment());
        List<String> texts = new ArrayList<>();
        found.forEach((member, assignment) -> {
            ByteBuffer bytes = ConsumerProtocol.serializeAssignment(assignment);
            byte[] array = new byte[bytes.remaining()];
            bytes.get(array);
            texts.add(member + "=" + Base64.getEncoder().encodeToString(array));
        });
        return String.join(";", texts);
    }

    private static String[] words(String text, String separator) {
        return text.isEmpty() ? new String[0] : text.split(separator);
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }
}
