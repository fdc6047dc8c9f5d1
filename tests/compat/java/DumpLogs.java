/**
 * Runs kafka.tools.DumpLogSegments as often as it is asked to, in one process: each line of standard
 * input is one set of arguments. The answer is what the tool prints, then what it prints to standard
 * error behind "E ", then a line ".".
 */
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;

public class DumpLogs {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ByteArrayOutputStream complaints = new ByteArrayOutputStream();
            System.setErr(new PrintStream(complaints, true));
            try {
                kafka.tools.DumpLogSegments.main(line.split(" "));
            } catch (Throwable problem) {
                System.err.println("! " + problem);
            }
            System.err.flush();
            for (String one : complaints.toString().split("\n"))
                if (!one.isEmpty()) System.out.println("E " + one);
            System.out.println(".");
            System.out.flush();
        }
    }
}
