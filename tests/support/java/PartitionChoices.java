package org.apache.kafka.clients.producer.internals;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.utils.LogContext;

/**
 * What Java's producer chooses, a line for each line of standard input.
 *
 * <p>"key COUNT HEX" for a key, "draw COUNT DRAWN AVAILABLE SIZES" (lists with commas, "-" for an
 * empty one) for records without one.
 */
public final class PartitionChoices {
  private static final Node NODE = new Node(1, "h", 1);

  public static void main(String[] arguments) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    String line;
    while ((line = input.readLine()) != null) {
      String[] words = line.split(" ", -1);
      int count = Integer.parseInt(words[1]);
      System.out.println(
          words[0].equals("key")
              ? BuiltInPartitioner.partitionForKey(bytes(words[2]), count)
              : choose(count, Integer.parseInt(words[2]), ints(words[3]), ints(words[4])));
    }
  }

  private static int choose(int count, int drawn, int[] available, int[] sizes) {
    BuiltInPartitioner partitioner =
        new BuiltInPartitioner(new LogContext(), "t", 1) {
          @Override
          int randomPartition() {
            return drawn;
          }
        };
    Set<Integer> led = new HashSet<>();
    for (int partition : available) {
      led.add(partition);
    }
    List<PartitionInfo> partitions = new ArrayList<>();
    for (int partition = 0; partition < count; partition++) {
      Node leader = led.contains(partition) ? NODE : null;
      partitions.add(new PartitionInfo("t", partition, leader, new Node[0], new Node[0]));
    }
    if (sizes.length > 0) {
      // As RecordAccumulator does: an array for all partitions, filled for those with a leader.
      int[] all = Arrays.copyOf(sizes, count);
      partitioner.updatePartitionLoadStats(all, Arrays.copyOf(available, count), sizes.length);
    }
    Cluster cluster = new Cluster("c", List.of(NODE), partitions, Set.of(), Set.of());
    return partitioner.peekCurrentPartitionInfo(cluster).partition();
  }

  private static int[] ints(String text) {
    return text.equals("-")
        ? new int[0]
        : Arrays.stream(text.split(",")).mapToInt(Integer::parseInt).toArray();
  }

  private static byte[] bytes(String hex) {
    byte[] found = new byte[hex.length() / 2];
    for (int place = 0; place < found.length; place++) {
      found[place] = (byte) Integer.parseInt(hex.substring(2 * place, 2 * place + 2), 16);
    }
    return found;
  }
}
