package org.apache.kafka.coordinator.group;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupMemberMetadataValue;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberState;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.coordinator.group.modern.consumer.ResolvedRegularExpression;

/**
 * Records, hashes and assignments of consumer groups, made by Kafka's own classes, as JSON.
 *
 * <p>Run by hand when Kafka's version changes; tests/golden/consumer-groups.json has the output.
 */
public final class ConsumerGroupAnswers {
  private static final Uuid FIRST = new Uuid(0x0102030405060708L, 0xF1F2F3F4F5F6F7F8L);
  private static final Uuid SECOND = new Uuid(0xE1E2E3E4E5E6E7E8L, 9);

  private record Topic(String name, Uuid id, List<List<String>> racks)
      implements CoordinatorMetadataImage.TopicMetadata {
    @Override
    public int partitionCount() {
      return racks.size();
    }

    @Override
    public List<String> partitionRacks(int partition) {
      return new ArrayList<>(racks.get(partition));
    }
  }

  private record Image(Map<String, Topic> topics) implements CoordinatorMetadataImage {
    @Override
    public Set<Uuid> topicIds() {
      throw new UnsupportedOperationException();
    }

    @Override
    public Set<String> topicNames() {
      return topics.keySet();
    }

    @Override
    public Optional<TopicMetadata> topicMetadata(String name) {
      return Optional.ofNullable(topics.get(name));
    }

    @Override
    public Optional<TopicMetadata> topicMetadata(Uuid id) {
      throw new UnsupportedOperationException();
    }

    @Override
    public CoordinatorMetadataDelta emptyDelta() {
      throw new UnsupportedOperationException();
    }

    @Override
    public long version() {
      return 1;
    }

    @Override
    public boolean isEmpty() {
      return false;
    }
  }

  public static void main(String[] arguments) {
    System.out.println("{\"version\": \"4.3.1\",");
    System.out.println("\"records\": {\n" + String.join(",\n", records()) + "\n},");
    System.out.println("\"hashes\": {\n" + String.join(",\n", hashes()) + "\n},");
    System.out.println("\"assignments\": [\n" + String.join(",\n", assignments()) + "\n]}");
  }

  // Records

  private static List<String> records() {
    ConsumerGroupMember plain =
        new ConsumerGroupMember.Builder("m")
            .setClientId("client")
            .setClientHost("/127.0.0.1")
            .setRebalanceTimeoutMs(300_000)
            .setSubscribedTopicNames(List.of("b", "a"))
            .build();
    ConsumerGroupMember full =
        new ConsumerGroupMember.Builder(plain)
            .setInstanceId("i")
            .setRackId("r")
            .setSubscribedTopicRegex("t.*")
            .setServerAssignorName("range")
            .setMemberEpoch(7)
            .setPreviousMemberEpoch(5)
            .setState(MemberState.UNREVOKED_PARTITIONS)
            .setAssignedPartitions(Map.of(FIRST, new TreeMap<>(Map.of(0, 3, 2, 7))))
            .setPartitionsPendingRevocation(Map.of(SECOND, Map.of(1, 4)))
            .setClassicMemberMetadata(
                new ConsumerGroupMemberMetadataValue.ClassicMemberMetadata()
                    .setSessionTimeoutMs(10_000)
                    .setSupportedProtocols(
                        List.of(
                            new ConsumerGroupMemberMetadataValue.ClassicProtocol()
                                .setName("range")
                                .setMetadata(new byte[] {1, 2}))))
            .build();
    Map<Uuid, Set<Integer>> target = new TreeMap<>();
    target.put(FIRST, new TreeSet<>(Set.of(3, 1)));
    return List.of(
        of("member", GroupCoordinatorRecordHelpers.newConsumerGroupMemberSubscriptionRecord("g", plain)),
        of("full member", GroupCoordinatorRecordHelpers.newConsumerGroupMemberSubscriptionRecord("g", full)),
        of("no member", GroupCoordinatorRecordHelpers.newConsumerGroupMemberSubscriptionTombstoneRecord("g", "m")),
        of("progress", GroupCoordinatorRecordHelpers.newConsumerGroupCurrentAssignmentRecord("g", full)),
        of("first progress", GroupCoordinatorRecordHelpers.newConsumerGroupCurrentAssignmentRecord("g", plain)),
        of("no progress", GroupCoordinatorRecordHelpers.newConsumerGroupCurrentAssignmentTombstoneRecord("g", "m")),
        of("target", GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentRecord("g", "m", target)),
        of("empty target", GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentRecord("g", "m", Map.of())),
        of("no target", GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentTombstoneRecord("g", "m")),
        of("target epoch", GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentMetadataRecord("g", 4, 1_700_000_000_000L)),
        of("untimed target epoch", GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentMetadataRecord("g", 4, 0)),
        of("no target epoch", GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentMetadataTombstoneRecord("g")),
        of("epoch", GroupCoordinatorRecordHelpers.newConsumerGroupEpochRecord("g", 5, -6_000_000_000L)),
        of("epoch without topics", GroupCoordinatorRecordHelpers.newConsumerGroupEpochRecord("g", 5, 0)),
        of("no epoch", GroupCoordinatorRecordHelpers.newConsumerGroupEpochTombstoneRecord("g")),
        of("no partition metadata", GroupCoordinatorRecordHelpers.newConsumerGroupSubscriptionMetadataTombstoneRecord("g")),
        of("regex", GroupCoordinatorRecordHelpers.newConsumerGroupRegularExpressionRecord("g", "t.*", new ResolvedRegularExpression(Set.of("t2", "t1"), 12, 1_700_000_000_000L))),
        of("no regex", GroupCoordinatorRecordHelpers.newConsumerGroupRegularExpressionTombstone("g", "t.*")));
  }

  private static String of(String name, CoordinatorRecord made) {
    GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
    byte[] value = serde.serializeValue(made);
    String hex = value == null ? "null" : "\"" + HexFormat.of().formatHex(value) + "\"";
    return "\"%s\": [\"%s\", %s, %s, %s]"
        .formatted(
            name,
            HexFormat.of().formatHex(serde.serializeKey(made)),
            hex,
            CoordinatorRecordJsonConverters.writeRecordKeyAsJson(made.key()),
            value == null
                ? null
                : CoordinatorRecordJsonConverters.writeRecordValueAsJson(
                    made.value().message(), made.value().version()));
  }

  // Hashes

  private static List<String> hashes() {
    Map<String, Topic> topics = new TreeMap<>();
    List<List<String>> many = Collections.nCopies(100, List.of("rack-b", "rack-a", "rack-b"));
    for (Topic topic :
        List.of(
            new Topic("a", FIRST, List.of(List.of())),
            new Topic("none", FIRST, List.of()),
            new Topic("some", SECOND, List.of(List.of("b", "a"), List.of(), List.of("é𝄞"))),
            new Topic("many", SECOND, many))) {
      topics.put(topic.name(), topic);
    }
    Image image = new Image(topics);
    List<String> lines = new ArrayList<>();
    Map<String, Long> all = new HashMap<>();
    for (String name : topics.keySet()) {
      all.put(name, Utils.computeTopicHash(name, image));
      lines.add("\"%s\": %d".formatted(name, all.get(name)));
    }
    lines.add("\"(all)\": %d".formatted(Utils.computeGroupHash(all)));
    return lines;
  }

  // Assignments: topic ids and members in the order of their hash tables.

  private static List<String> assignments() {
    List<String> lines = new ArrayList<>();
    for (int seed = 0; seed < 300; seed++) {
      lines.add(assignment(new Random(seed)));
    }
    return lines;
  }

  private static String assignment(Random draw) {
    int topics = 1 + draw.nextInt(4);
    int members = 1 + draw.nextInt(6);
    boolean isHomogeneous = draw.nextBoolean();
    int[] counts = draw.ints(topics, 1, 13).toArray();
    Set<Integer> all = drawTopics(draw, topics);
    List<Set<Integer>> subscriptions = new ArrayList<>();
    List<Map<Integer, Set<Integer>>> old = new ArrayList<>();
    for (int member = 0; member < members; member++) {
      subscriptions.add(isHomogeneous ? all : drawTopics(draw, topics));
      old.add(new TreeMap<>());
    }
    Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
    for (int topic = 0; topic < topics; topic++) {
      for (int partition = 0; partition < counts[topic]; partition++) {
        int owner = draw.nextInt(members + 2);
        if (owner < members) {
          old.get(owner).computeIfAbsent(topic, __ -> new TreeSet<>()).add(partition);
          owners.computeIfAbsent(id(topic), __ -> new HashMap<>()).put(partition, "m" + owner);
        }
      }
    }
    Map<String, MemberSubscriptionAndAssignmentImpl> spec = new TreeMap<>();
    List<String> described = new ArrayList<>();
    for (int member = 0; member < members; member++) {
      Optional<String> instance =
          draw.nextBoolean() ? Optional.of("i" + (members - member)) : Optional.empty();
      Map<Uuid, Set<Integer>> target = new TreeMap<>();
      old.get(member).forEach((topic, found) -> target.put(id(topic), found));
      Set<Uuid> ids = new TreeSet<>();
      subscriptions.get(member).forEach(topic -> ids.add(id(topic)));
      spec.put(
          "m" + member,
          new MemberSubscriptionAndAssignmentImpl(
              Optional.empty(), instance, ids, new Assignment(target)));
      described.add(
          "[%s, %s, %s]"
              .formatted(
                  instance.map(name -> "\"" + name + "\"").orElse("null"),
                  subscriptions.get(member),
                  json(target)));
    }
    SubscriptionType type =
        isHomogeneous ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
    GroupSpecImpl group = new GroupSpecImpl(spec, type, owners);
    SubscribedTopicDescriber describer =
        new SubscribedTopicDescriber() {
          @Override
          public int numPartitions(Uuid topic) {
            return counts[(int) topic.getLeastSignificantBits() - 1];
          }

          @Override
          public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of();
          }
        };
    List<String> answers = new ArrayList<>();
    for (ConsumerGroupPartitionAssignor assignor :
        List.of(new UniformAssignor(), new RangeAssignor())) {
      Map<String, MemberAssignment> found = assignor.assign(group, describer).members();
      List<String> each = new ArrayList<>();
      for (String member : spec.keySet()) {
        each.add(json(found.containsKey(member) ? found.get(member).partitions() : Map.of()));
      }
      answers.add("\"%s\": [%s]".formatted(assignor.name(), String.join(", ", each)));
    }
    return "{\"counts\": %s, \"homogeneous\": %s, \"members\": [%s], %s}"
        .formatted(
            Arrays.toString(counts),
            isHomogeneous,
            String.join(", ", described),
            String.join(", ", answers));
  }

  private static Set<Integer> drawTopics(Random draw, int topics) {
    Set<Integer> found = new TreeSet<>();
    for (int topic = 0; topic < topics; topic++) {
      if (draw.nextInt(4) > 0) {
        found.add(topic);
      }
    }
    return found;
  }

  private static Uuid id(int topic) {
    return new Uuid(0, topic + 1);
  }

  private static String json(Map<Uuid, Set<Integer>> partitions) {
    List<String> each = new ArrayList<>();
    for (Map.Entry<Uuid, Set<Integer>> entry : new TreeMap<>(partitions).entrySet()) {
      each.add(
          "\"%d\": %s"
              .formatted(
                  entry.getKey().getLeastSignificantBits() - 1, new TreeSet<>(entry.getValue())));
    }
    return "{" + String.join(", ", each) + "}";
  }
}
