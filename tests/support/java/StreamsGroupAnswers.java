package org.apache.kafka.coordinator.group.streams;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.CreateTopicsRequestData.CreatableTopic;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.coordinator.group.generated.StreamsGroupMemberMetadataValue;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;
import org.apache.kafka.coordinator.group.streams.topics.InternalTopicManager;
import org.slf4j.helpers.NOPLogger;

/**
 * Records, assignments, topics and steps of streams groups, made by Kafka's own classes, as JSON.
 *
 * <p>Run by hand when Kafka's version changes; tests/golden/streams-groups.json has the output.
 */
public final class StreamsGroupAnswers {
  private record Topic(String name, int partitionCount)
      implements CoordinatorMetadataImage.TopicMetadata {
    @Override
    public Uuid id() {
      return new Uuid(1, name.hashCode());
    }

    @Override
    public List<String> partitionRacks(int partition) {
      return List.of();
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
    System.out.println("\"assignments\": [\n" + String.join(",\n", assignments()) + "\n],");
    System.out.println("\"topics\": [\n" + String.join(",\n", topics()) + "\n],");
    System.out.println("\"steps\": [\n" + String.join(",\n", steps()) + "\n]}");
  }

  // Records

  private static List<String> records() {
    StreamsGroupMember plain =
        StreamsGroupMember.Builder.withDefaults("m")
            .setClientId("client")
            .setClientHost("/127.0.0.1")
            .setRebalanceTimeoutMs(300_000)
            .setTopologyEpoch(0)
            .setProcessId("p")
            .build();
    TasksTupleWithEpochs owned =
        new TasksTupleWithEpochs(
            Map.of("1", new TreeMap<>(Map.of(0, 3, 2, 7)), "0", Map.of(1, 4)),
            Map.of("1", Set.of(1)),
            Map.of("2", Set.of(3)));
    StreamsGroupMember full =
        new StreamsGroupMember.Builder(plain)
            .setInstanceId("i")
            .setRackId("r")
            .setTopologyEpoch(2)
            .setUserEndpoint(
                new StreamsGroupMemberMetadataValue.Endpoint().setHost("h").setPort(65_535))
            .setClientTags(new HashMap<>(Map.of("b", "2", "a", "1")))
            .setMemberEpoch(7)
            .setPreviousMemberEpoch(5)
            .setState(MemberState.UNREVOKED_TASKS)
            .setAssignedTasks(owned)
            .setTasksPendingRevocation(
                new TasksTupleWithEpochs(
                    Map.of("0", Map.of(3, 2)), Map.of("0", Set.of(4)), Map.of("0", Set.of(5))))
            .build();
    TasksTuple target =
        new TasksTuple(
            Map.of("1", Set.of(3, 1), "0", Set.of(2)), Map.of("1", Set.of(0)), Map.of());
    StreamsGroupTopologyValue topology =
        new StreamsGroupTopologyValue()
            .setEpoch(3)
            .setSubtopologies(
                List.of(
                    new StreamsGroupTopologyValue.Subtopology()
                        .setSubtopologyId("0")
                        .setSourceTopics(List.of("a", "b"))
                        .setSourceTopicRegex(List.of("x.*"))
                        .setRepartitionSinkTopics(List.of("r"))
                        .setCopartitionGroups(
                            List.of(
                                new StreamsGroupTopologyValue.CopartitionGroup()
                                    .setSourceTopics(List.of((short) 0, (short) 1))
                                    .setSourceTopicRegex(List.of((short) 0))
                                    .setRepartitionSourceTopics(List.of()))),
                    new StreamsGroupTopologyValue.Subtopology()
                        .setSubtopologyId("1")
                        .setRepartitionSourceTopics(List.of(info("r", 2)))
                        .setStateChangelogTopics(
                            List.of(
                                info("c", 0)
                                    .setReplicationFactor((short) 3)
                                    .setTopicConfigs(
                                        List.of(
                                            new StreamsGroupTopologyValue.TopicConfig()
                                                .setKey("cleanup.policy")
                                                .setValue("compact")))))));
    return List.of(
        of("member", StreamsCoordinatorRecordHelpers.newStreamsGroupMemberRecord("g", plain)),
        of("full member", StreamsCoordinatorRecordHelpers.newStreamsGroupMemberRecord("g", full)),
        of("no member", StreamsCoordinatorRecordHelpers.newStreamsGroupMemberTombstoneRecord("g", "m")),
        of("progress", StreamsCoordinatorRecordHelpers.newStreamsGroupCurrentAssignmentRecord("g", full)),
        of("first progress", StreamsCoordinatorRecordHelpers.newStreamsGroupCurrentAssignmentRecord("g", plain)),
        of("no progress", StreamsCoordinatorRecordHelpers.newStreamsGroupCurrentAssignmentTombstoneRecord("g", "m")),
        of("target", StreamsCoordinatorRecordHelpers.newStreamsGroupTargetAssignmentRecord("g", "m", target)),
        of("empty target", StreamsCoordinatorRecordHelpers.newStreamsGroupTargetAssignmentRecord("g", "m", TasksTuple.EMPTY)),
        of("no target", StreamsCoordinatorRecordHelpers.newStreamsGroupTargetAssignmentTombstoneRecord("g", "m")),
        of("target epoch", StreamsCoordinatorRecordHelpers.newStreamsGroupTargetAssignmentMetadataRecord("g", 4, 1_700_000_000_000L)),
        of("untimed target epoch", StreamsCoordinatorRecordHelpers.newStreamsGroupTargetAssignmentMetadataRecord("g", 4, 0)),
        of("no target epoch", StreamsCoordinatorRecordHelpers.newStreamsGroupTargetAssignmentMetadataTombstoneRecord("g")),
        of("epoch", StreamsCoordinatorRecordHelpers.newStreamsGroupMetadataRecord("g", 5, -6_000_000_000L, 3, new TreeMap<>(Map.of("num.standby.replicas", "1")))),
        of("epoch without topics", StreamsCoordinatorRecordHelpers.newStreamsGroupMetadataRecord("g", 5, 0, -1, Map.of())),
        of("no epoch", StreamsCoordinatorRecordHelpers.newStreamsGroupEpochTombstoneRecord("g")),
        of("topology", StreamsCoordinatorRecordHelpers.newStreamsGroupTopologyRecord("g", topology)),
        of("no topology", StreamsCoordinatorRecordHelpers.newStreamsGroupTopologyRecordTombstone("g")));
  }

  private static StreamsGroupTopologyValue.TopicInfo info(String name, int partitions) {
    return new StreamsGroupTopologyValue.TopicInfo().setName(name).setPartitions(partitions);
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

  // Assignments: ids are such that Kafka's hash tables have them in order.

  private static List<String> assignments() {
    List<String> lines = new ArrayList<>();
    for (int seed = 0; seed < 200; seed++) {
      lines.add(assignment(new Random(seed)));
    }
    return lines;
  }

  private static String assignment(Random draw) {
    int members = 1 + draw.nextInt(7);
    int processes = 1 + draw.nextInt(members);
    int replicas = draw.nextInt(3);
    TreeMap<String, Integer> counts = new TreeMap<>();
    TreeSet<String> stateful = new TreeSet<>();
    int subtopologies = 1 + draw.nextInt(3);
    for (int n = 0; n < subtopologies; n++) {
      counts.put("" + n, 1 + draw.nextInt(6));
      if (draw.nextBoolean()) {
        stateful.add("" + n);
      }
    }
    List<TreeMap<String, Set<Integer>>> active = new ArrayList<>();
    List<TreeMap<String, Set<Integer>>> standby = new ArrayList<>();
    for (int n = 0; n < members; n++) {
      active.add(new TreeMap<>());
      standby.add(new TreeMap<>());
    }
    counts.forEach(
        (name, count) -> {
          for (int partition = 0; partition < count; partition++) {
            int owner = draw.nextInt(members + 1);
            if (owner < members) {
              active.get(owner).computeIfAbsent(name, __ -> new TreeSet<>()).add(partition);
            }
            for (int n = 0; n < members; n++) {
              if (n != owner && stateful.contains(name) && draw.nextInt(4) == 0) {
                standby.get(n).computeIfAbsent(name, __ -> new TreeSet<>()).add(partition);
              }
            }
          }
        });
    Map<String, AssignmentMemberSpec> specs = new TreeMap<>();
    List<String> described = new ArrayList<>();
    for (int n = 0; n < members; n++) {
      String process = "p" + draw.nextInt(processes);
      specs.put(
          "m" + n,
          new AssignmentMemberSpec(
              Optional.empty(), Optional.empty(), active.get(n), standby.get(n), Map.of(), process,
              Map.of(), Map.of(), Map.of()));
      described.add(
          "[\"%s\", %s, %s]".formatted(process, json(active.get(n)), json(standby.get(n))));
    }
    TopologyDescriber describer =
        new TopologyDescriber() {
          @Override
          public List<String> subtopologies() {
            return new ArrayList<>(counts.keySet());
          }

          @Override
          public int maxNumInputPartitions(String name) {
            return counts.get(name);
          }

          @Override
          public boolean isStateful(String name) {
            return stateful.contains(name);
          }
        };
    Map<String, MemberAssignment> found =
        new StickyTaskAssignor()
            .assign(
                new GroupSpecImpl(specs, Map.of("num.standby.replicas", "" + replicas)), describer)
            .members();
    List<String> answers = new ArrayList<>();
    for (String name : specs.keySet()) {
      answers.add(
          "[%s, %s]".formatted(json(found.get(name).activeTasks()), json(found.get(name).standbyTasks())));
    }
    List<String> sizes = new ArrayList<>();
    counts.forEach((name, count) -> sizes.add("[%d, %s]".formatted(count, stateful.contains(name))));
    return "{\"subtopologies\": [%s], \"replicas\": %d, \"members\": [%s], \"answers\": [%s]}"
        .formatted(
            String.join(", ", sizes),
            replicas,
            String.join(", ", described),
            String.join(", ", answers));
  }

  private static String json(Map<String, Set<Integer>> tasks) {
    List<String> each = new ArrayList<>();
    new TreeMap<>(tasks)
        .forEach((name, found) -> each.add("\"%s\": %s".formatted(name, new TreeSet<>(found))));
    return "{" + String.join(", ", each) + "}";
  }

  private static String texts(Iterable<String> texts) {
    List<String> each = new ArrayList<>();
    texts.forEach(text -> each.add("\"" + text + "\""));
    return "[" + String.join(", ", each) + "]";
  }

  // Topics: topologies, with what their topics are.

  private static List<String> topics() {
    List<String> lines = new ArrayList<>();
    for (int seed = 0; seed < 200; seed++) {
      lines.add(topic(new Random(seed)));
    }
    return lines;
  }

  private static String topic(Random draw) {
    int size = 1 + draw.nextInt(4);
    boolean isWhole = draw.nextBoolean();
    boolean isUniform = draw.nextInt(3) > 0;
    TreeMap<String, Topic> existing = new TreeMap<>();
    for (int n = 0; n < 4; n++) {
      if (isWhole || draw.nextInt(6) > 0) {
        existing.put("s" + n, new Topic("s" + n, !isUniform && draw.nextInt(3) == 0 ? 3 : 2));
      }
    }
    for (String name : List.of("r0", "r1", "r2", "c0", "c1", "c2")) {
      if (isWhole && isUniform || draw.nextInt(3) == 0) {
        existing.put(name, new Topic(name, !isUniform && draw.nextInt(4) == 0 ? 3 : 2));
      }
    }
    TreeMap<String, Integer> fixed = new TreeMap<>();
    for (int n = 0; n < 3; n++) {
      fixed.put("r" + n, draw.nextInt(4) == 0 ? 1 + draw.nextInt(3) : 0);
    }
    List<StreamsGroupTopologyValue.Subtopology> parts = new ArrayList<>();
    Map<String, StreamsGroupTopologyValue.Subtopology> byId = new HashMap<>();
    List<String> described = new ArrayList<>();
    for (int n = 0; n < size; n++) {
      List<String> sources = drawn(draw, "s", 4, 2);
      List<String> repartition = drawn(draw, "r", 3, 3);
      List<String> sinks = drawn(draw, "r", 3, 2);
      List<String> changelogs = drawn(draw, "c", 3, 3);
      List<Short> first = places(draw, sources.size());
      List<Short> second = places(draw, repartition.size());
      List<StreamsGroupTopologyValue.TopicInfo> infos = new ArrayList<>();
      repartition.forEach(name -> infos.add(info(name, fixed.get(name))));
      List<StreamsGroupTopologyValue.TopicInfo> states = new ArrayList<>();
      changelogs.forEach(name -> states.add(info(name, 0)));
      StreamsGroupTopologyValue.Subtopology part =
          new StreamsGroupTopologyValue.Subtopology()
              .setSubtopologyId("" + n)
              .setSourceTopics(sources)
              .setRepartitionSourceTopics(infos)
              .setRepartitionSinkTopics(sinks)
              .setStateChangelogTopics(states)
              .setCopartitionGroups(
                  List.of(
                      new StreamsGroupTopologyValue.CopartitionGroup()
                          .setSourceTopics(first)
                          .setRepartitionSourceTopics(second)));
      byId.put("" + n, part);
      List<String> sizes = new ArrayList<>();
      infos.forEach(i -> sizes.add("[\"%s\", %d]".formatted(i.name(), i.partitions())));
      described.add(
          "[%s, [%s], %s, %s, %s, %s]"
              .formatted(
                  texts(sources), String.join(", ", sizes), texts(sinks), texts(changelogs), first,
                  second));
    }
    List<String> there = new ArrayList<>();
    existing.values().forEach(t -> there.add("\"%s\": %d".formatted(t.name(), t.partitionCount())));
    String answer;
    try {
      ConfiguredTopology found =
          InternalTopicManager.configureTopics(
              NOPLogger.NOP_LOGGER, "g", "m", 1, new StreamsTopology(0, byId), new Image(new HashMap<>(existing)),
              Time.SYSTEM);
      List<String> missing = new ArrayList<>();
      for (CreatableTopic one : new TreeMap<>(found.internalTopicsToBeCreated()).values()) {
        missing.add("\"%s\": %d".formatted(one.name(), one.numPartitions()));
      }
      List<String> tasks = new ArrayList<>();
      found.subtopologies()
          .ifPresent(all -> all.forEach((name, one) -> tasks.add("\"%s\": %d".formatted(name, one.numberOfTasks()))));
      answer =
          "{\"status\": %s, \"tasks\": %s, \"missing\": {%s}}"
              .formatted(
                  found.topicConfigurationException().map(e -> "" + e.status().code()).orElse("null"),
                  found.subtopologies().isEmpty() ? "null" : "{" + String.join(", ", tasks) + "}",
                  String.join(", ", missing));
    } catch (ApiException | IllegalStateException e) {
      answer = "{\"error\": %d}".formatted(Errors.forException(e).code());
    }
    return "{\"existing\": {%s}, \"subtopologies\": [%s], \"answer\": %s}"
        .formatted(String.join(", ", there), String.join(", ", described), answer);
  }

  private static List<String> drawn(Random draw, String prefix, int count, int rarity) {
    List<String> found = new ArrayList<>();
    for (int n = 0; n < count; n++) {
      if (draw.nextInt(rarity) == 0) {
        found.add(prefix + n);
      }
    }
    return found;
  }

  private static List<Short> places(Random draw, int count) {
    List<Short> found = new ArrayList<>();
    for (int n = 0; n < count; n++) {
      if (draw.nextInt(3) > 0) {
        found.add((short) n);
      }
    }
    return found;
  }

  // Steps: a member, its target, the others' tasks, and what it says it has.

  private static List<String> steps() {
    List<String> lines = new ArrayList<>();
    for (int seed = 0; seed < 250; seed++) {
      lines.add(step(new Random(seed)));
    }
    return lines;
  }

  private static String step(Random draw) {
    MemberState state = MemberState.values()[draw.nextInt(4)];
    int epoch = 1 + draw.nextInt(4);
    int targetEpoch = epoch + draw.nextInt(3);
    TasksTupleWithEpochs assigned = owned(draw, epoch);
    TasksTupleWithEpochs revoking =
        state == MemberState.UNREVOKED_TASKS ? owned(draw, epoch) : TasksTupleWithEpochs.EMPTY;
    TasksTuple target = tasks(draw);
    Map<String, Map<Integer, String>> active = new TreeMap<>();
    Map<String, Map<Integer, Set<String>>> standby = new TreeMap<>();
    Map<String, Map<Integer, Set<String>>> warmup = new TreeMap<>();
    for (String name : List.of("0", "1")) {
      for (int partition = 0; partition < 3; partition++) {
        int holder = draw.nextInt(6);
        if (holder < 2) {
          active.computeIfAbsent(name, __ -> new TreeMap<>()).put(partition, "p" + holder);
        }
        hold(draw, standby, name, partition);
        hold(draw, warmup, name, partition);
      }
    }
    TasksTuple owns = draw.nextBoolean() ? null : draw.nextBoolean() ? TasksTuple.EMPTY : tasks(draw);
    StreamsGroupMember member =
        StreamsGroupMember.Builder.withDefaults("m")
            .setProcessId("p0")
            .setState(state)
            .setMemberEpoch(epoch)
            .setPreviousMemberEpoch(epoch - 1)
            .setAssignedTasks(assigned)
            .setTasksPendingRevocation(revoking)
            .build();
    String answer;
    try {
      StreamsGroupMember after =
          new CurrentAssignmentBuilder(member)
              .withTargetAssignment(targetEpoch, target)
              .withCurrentActiveTaskProcessId(
                  (name, n) -> active.getOrDefault(name, Map.of()).get(n))
              .withCurrentStandbyTaskProcessIds(
                  (name, n) -> standby.getOrDefault(name, Map.of()).getOrDefault(n, Set.of()))
              .withCurrentWarmupTaskProcessIds(
                  (name, n) -> warmup.getOrDefault(name, Map.of()).getOrDefault(n, Set.of()))
              .withOwnedAssignment(owns)
              .build();
      answer =
          "[%d, %d, %d, %s, %s]"
              .formatted(
                  after.memberEpoch(), after.previousMemberEpoch(), after.state().value(),
                  json(after.assignedTasks()), json(after.tasksPendingRevocation()));
    } catch (ApiException e) {
      answer = "null";
    }
    List<String> holders = new ArrayList<>();
    active.forEach((name, each) -> each.forEach((n, p) -> holders.add("[\"active\", \"%s\", %d, \"%s\"]".formatted(name, n, p))));
    standby.forEach((name, each) -> each.forEach((n, ps) -> ps.forEach(p -> holders.add("[\"standby\", \"%s\", %d, \"%s\"]".formatted(name, n, p)))));
    warmup.forEach((name, each) -> each.forEach((n, ps) -> ps.forEach(p -> holders.add("[\"warmup\", \"%s\", %d, \"%s\"]".formatted(name, n, p)))));
    return "{\"member\": [%d, %d, %s, %s], \"target\": [%d, %s], \"holders\": [%s], \"owns\": %s, \"answer\": %s}"
        .formatted(
            epoch, state.value(), json(assigned), json(revoking), targetEpoch, json(target),
            String.join(", ", holders), owns == null ? "null" : json(owns), answer);
  }

  private static void hold(
      Random draw, Map<String, Map<Integer, Set<String>>> holders, String name, int partition) {
    if (draw.nextInt(4) == 0) {
      holders
          .computeIfAbsent(name, __ -> new TreeMap<>())
          .computeIfAbsent(partition, __ -> new TreeSet<>())
          .add("p" + draw.nextInt(2));
    }
  }

  private static Map<String, Set<Integer>> drawTasks(Random draw) {
    Map<String, Set<Integer>> found = new TreeMap<>();
    for (String name : List.of("0", "1")) {
      for (int partition = 0; partition < 3; partition++) {
        if (draw.nextInt(3) == 0) {
          found.computeIfAbsent(name, __ -> new HashSet<>()).add(partition);
        }
      }
    }
    return found;
  }

  private static TasksTuple tasks(Random draw) {
    return new TasksTuple(drawTasks(draw), drawTasks(draw), drawTasks(draw));
  }

  private static TasksTupleWithEpochs owned(Random draw, int epoch) {
    Map<String, Map<Integer, Integer>> active = new TreeMap<>();
    drawTasks(draw)
        .forEach(
            (name, found) -> {
              Map<Integer, Integer> epochs = new TreeMap<>();
              found.forEach(n -> epochs.put(n, 1 + draw.nextInt(epoch)));
              active.put(name, epochs);
            });
    return new TasksTupleWithEpochs(active, drawTasks(draw), drawTasks(draw));
  }

  private static String json(TasksTuple tasks) {
    return "[%s, %s, %s]"
        .formatted(json(tasks.activeTasks()), json(tasks.standbyTasks()), json(tasks.warmupTasks()));
  }

  private static String json(TasksTupleWithEpochs tasks) {
    List<String> each = new ArrayList<>();
    new TreeMap<>(tasks.activeTasksWithEpochs())
        .forEach(
            (name, epochs) -> {
              List<String> pairs = new ArrayList<>();
              new TreeMap<>(epochs).forEach((n, e) -> pairs.add("[%d, %d]".formatted(n, e)));
              each.add("\"%s\": [%s]".formatted(name, String.join(", ", pairs)));
            });
    return "[{%s}, %s, %s]"
        .formatted(String.join(", ", each), json(tasks.standbyTasks()), json(tasks.warmupTasks()));
  }
}
