// Takes a transactional id through its life, with Kafka's own class, and prints each value that
// Kafka writes to __transaction_state under each transaction.version.

import java.util.HexFormat;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.coordinator.transaction.TransactionLog;
import org.apache.kafka.coordinator.transaction.TransactionMetadata;
import org.apache.kafka.coordinator.transaction.TransactionState;
import org.apache.kafka.coordinator.transaction.TxnTransitMetadata;
import org.apache.kafka.server.common.TransactionVersion;

public class TransactionLogValues {
    private static TransactionMetadata metadata;
    private static TransactionVersion server;

    public static void main(String[] args) {
        for (TransactionVersion level : TransactionVersion.values()) {
            server = level;
            for (TransactionVersion client : TransactionVersion.values()) {
                if (client == TransactionVersion.TV_1
                    || (client == TransactionVersion.TV_2 && level == TransactionVersion.TV_0)) {
                    continue; // no client says 1, and Kafka refuses to write 2 under 0
                }
                for (short epoch : new short[] {-1, Short.MAX_VALUE - 2}) {
                    live(client, epoch);
                }
            }
        }
    }

    private static void live(TransactionVersion client, short epoch) {
        metadata = new TransactionMetadata("id", 7L, -1L, -1L, epoch, (short) -1, 1000,
            TransactionState.EMPTY, Set.of(), -1L, 1L, TransactionVersion.TV_0);
        String name = client.featureLevel() + " " + epoch + " ";
        log(name + "init", metadata.prepareIncrementProducerEpoch(2000, Optional.empty(), 2L));
        for (boolean committed : new boolean[] {true, false}) {
            TransactionState end =
                committed ? TransactionState.PREPARE_COMMIT : TransactionState.PREPARE_ABORT;
            log(name + "add",
                metadata.prepareAddPartitions(Set.of(new TopicPartition("t", 3)), 3L, client));
            boolean isLast = client == TransactionVersion.TV_2 && metadata.isProducerEpochExhausted();
            log(name + "end",
                metadata.prepareAbortOrCommit(end, client, isLast ? 99L : -1L, 4L, false));
            metadata.removePartition(new TopicPartition("t", 3));
            log(name + "complete", metadata.prepareComplete(5L));
        }
        if (client == TransactionVersion.TV_2) {
            boolean isLast = metadata.isProducerEpochExhausted();
            log(name + "abort", metadata.prepareAbortOrCommit(
                TransactionState.PREPARE_ABORT, client, isLast ? 98L : -1L, 6L, true));
            log(name + "complete", metadata.prepareComplete(7L));
        }
    }

    private static void log(String step, TxnTransitMetadata transit) {
        byte[] value = TransactionLog.valueToBytes(transit, server);
        metadata.completeTransitionTo(transit);
        System.out.println(
            server.featureLevel() + " " + step + " " + HexFormat.of().formatHex(value));
    }
}
