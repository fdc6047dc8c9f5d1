/**
 * Runs Kafka's command line tools one after the other in one process: each line of standard input is
 * a main class and its arguments, separated by tabs. The answer is what the tool prints, then a line
 * of the byte 4 and the status with which the tool would have ended.
 */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

public class KafkaTools {
    /** Of the first call of exit: a tool may catch what ends it here, and call once more. */
    static Integer status;

    static class Ended extends Error {
        Ended(String message) {
            super(message);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((wanted, message) -> {
            if (status == null) status = wanted;
            throw new Ended(message);
        });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            status = null;
            run(line.split("\t", -1));
            System.err.flush();
            System.out.println((char) 4 + "" + (status == null ? 0 : status));
            System.out.flush();
        }
    }

    static void run(String[] words) throws Exception {
        String[] arguments = Arrays.copyOfRange(words, 1, words.length);
        try {
            Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException problem) {
            if (problem.getCause() instanceof Ended) return;
            problem.getCause().printStackTrace();
            if (status == null) status = 1;
        }
    }
}
