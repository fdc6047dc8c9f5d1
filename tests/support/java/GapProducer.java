import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Kafka's own producer with timed acknowledgements; tests/support/gap_client.py says what it does. */
public class GapProducer {
    private static final int SEND_MS = 10;
    private static volatile boolean ended = false;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("acks", "all");
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        for (int i = 3; i < arguments.length; i++) {
            String[] setting = arguments[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException gone) {
                // as its end
            }
            ended = true;
        });
        watch.setDaemon(true);
        watch.start();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            for (int number = 0; !ended; number++) {
                for (int partition = 0; partition < partitions; partition++) {
                    send(producer, topic, partition, number);
                }
                Thread.sleep(SEND_MS);
            }
        }
    }

    private static void send(
            KafkaProducer<byte[], byte[]> producer, String topic, int partition, int number) {
        byte[] value = Integer.toString(number).getBytes();
        producer.send(new ProducerRecord<>(topic, partition, null, value), (place, error) -> {
            String line = error == null
                ? System.nanoTime() + " " + partition + " " + number + " " + place.offset()
                : "x " + error;
            synchronized (System.out) {
                System.out.println(line);
                System.out.flush();
            }
        });
    }
}
