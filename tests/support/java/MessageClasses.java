import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Message;

/**
 * What Kafka's generated classes make of messages, a line for each line of standard input.
 *
 * <p>"NAME VERSION HEX" is answered by "HEX JSON": the bytes that the class writes, and its fields.
 */
public final class MessageClasses {
  private static final String[] NAMES = {
    "org.apache.kafka.common.message.%sData",
    "org.apache.kafka.common.message.%s",
    "org.apache.kafka.coordinator.group.generated.%s",
    "org.apache.kafka.coordinator.share.generated.%s",
    "org.apache.kafka.coordinator.transaction.generated.%s",
    "org.apache.kafka.server.log.remote.metadata.storage.generated.%s",
  };

  public static void main(String[] arguments) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    PrintStream output = new PrintStream(System.out, false, "UTF-8");
    String line;
    while ((line = input.readLine()) != null) {
      String[] words = line.split(" ", -1);
      output.println(answer(words[0], Short.parseShort(words[1]), words[2]));
    }
    output.flush();
  }

  private static String answer(String name, short version, String hex) throws Exception {
    Class<?> cls = find(name);
    Message message = (Message) cls.getConstructor().newInstance();
    ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(hex));
    message.read(new ByteBufferAccessor(bytes), version);
    if (bytes.hasRemaining()) {
      throw new IllegalStateException(name + " v" + version + " leaves " + bytes.remaining());
    }
    ByteBuffer written = MessageUtil.toByteBufferAccessor(message, version).buffer();
    byte[] found = new byte[written.remaining()];
    written.get(found);
    Class<?> converter = Class.forName(cls.getName() + "JsonConverter");
    Method write = converter.getMethod("write", cls, short.class, boolean.class);
    JsonNode fields = (JsonNode) write.invoke(null, message, version, false);
    return HexFormat.of().formatHex(found) + " " + fields;
  }

  private static Class<?> find(String name) throws ClassNotFoundException {
    for (String form : NAMES) {
      try {
        return Class.forName(String.format(form, name));
      } catch (ClassNotFoundException notHere) {
        // In another package.
      }
    }
    throw new ClassNotFoundException(name);
  }
}
