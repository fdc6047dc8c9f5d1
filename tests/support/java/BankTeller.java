import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A teller of the bank with Kafka's own client; tests/support/bank_client.py says what it does. */
public class BankTeller {
    private static final int ACCOUNTS = 100;
    private static final int PARTITIONS = 3;
    private static volatile boolean ending = false;
    private static volatile boolean ended = false;

    public static void main(String[] arguments) throws Exception {
        String name = arguments[1];
        String life = arguments[2];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", name);
        settings.put("transaction.timeout.ms", arguments[3]);
        settings.put("linger.ms", "0");
        settings.put("reconnect.backoff.max.ms", "500");
        settings.put("max.block.ms", "30000");
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            ending = true;
            for (int i = 0; i < 200 && !ended; i++) {
                pause(50);
            }
        }));
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings);
        try {
            again(producer::initTransactions);
            journal("r");
            work(producer, name, life);
        } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
            journal("f");
        } catch (KafkaException trouble) {
            journal("x " + trouble);
        } finally {
            ended = true;
        }
        Runtime.getRuntime().halt(0);
    }

    private static void work(KafkaProducer<byte[], byte[]> producer, String name, String life) {
        Random chance = new Random((name + life).hashCode());
        for (int number = 0; !ending; number++) {
            pause(50);
            String transfer = name + "/" + life + "/" + number;
            List<Integer> accounts = new ArrayList<>();
            for (int account = 0; account < ACCOUNTS; account++) {
                accounts.add(account);
            }
            Collections.shuffle(accounts, chance);
            int count = 2 + chance.nextInt(3);
            int amount = 1 + chance.nextInt(50);
            boolean commit = number % 8 != 7;
            journal("b " + transfer);
            try {
                producer.beginTransaction();
                for (int leg = 0; leg < count; leg++) {
                    int account = accounts.get(leg);
                    int moved = leg == 0 ? -amount * (count - 1) : amount;
                    String value = transfer + " " + leg + " " + count + " " + account + " " + moved;
                    producer.send(new ProducerRecord<>(
                        "ledger", account % PARTITIONS, null, value.getBytes()));
                }
                if (commit) {
                    again(producer::commitTransaction);
                } else {
                    again(producer::abortTransaction);
                }
                journal((commit ? "c " : "a ") + transfer);
            } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
                journal("u " + transfer);
                throw fenced;
            } catch (KafkaException trouble) {
                try {
                    again(producer::abortTransaction);
                    journal("a " + transfer);
                } catch (KafkaException fatal) {
                    journal("u " + transfer);
                    throw fatal;
                }
            }
        }
    }

    /** What timed out may be asked for again, and must be before anything else. */
    private static void again(Runnable call) {
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException late) {
                if (ending) {
                    throw late;
                }
            }
        }
    }

    private static void journal(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
