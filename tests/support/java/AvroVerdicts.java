import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.stream.Collectors;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/** Reads lines of two schemas, reader and writer, with a tab between. Prints the reader as Avro writes
 * it, a tab, and why it cannot read: kind, place and detail of each problem, with spaces between. */
public class AvroVerdicts {
  public static void main(String[] arguments) throws Exception {
    PrintStream out = new PrintStream(System.out, true, "UTF-8");
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] both = line.split("\t");
      Schema reader = new Schema.Parser().parse(both[0]);
      Schema writer = new Schema.Parser().parse(both[1]);
      out.println(reader + "\t" + problems(reader, writer));
    }
  }

  private static String problems(Schema reader, Schema writer) {
    try {
      return SchemaCompatibility.checkReaderWriterCompatibility(reader, writer)
          .getResult()
              .getIncompatibilities()
              .stream()
              .map(one -> one.getType() + "@" + one.getLocation() + "@" + one.getMessage())
              .collect(Collectors.joining("|"));
    } catch (AvroRuntimeException error) {
      return "ambiguous";
    }
  }
}
