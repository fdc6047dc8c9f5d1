/**
 * What Kafka's own AclAuthorizer decides: reads commands, fields separated by tabs, and prints one
 * digit for each question. No ZooKeeper: its cache is told what there is.
 *
 *   new     super users, separated by semicolons; whether to allow without ACLs
 *   acls    resource type, pattern type, name, then four fields for each of its entries
 *   ask     principal type and name, host, operation, resource type, name
 *   any     principal type and name, host, operation, resource type
 */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashSet;
import java.util.Set;
import kafka.security.authorizer.AclAuthorizer;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.security.authorizer.AclEntry;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import scala.jdk.javaapi.CollectionConverters;

public class AclDecisions {
    static AclAuthorizer authorizer;

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "new": make(words); break;
                case "acls": load(words); break;
                case "ask": out.print(digit(ask(words))); break;
                case "any": out.print(digit(any(words))); break;
                default: throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }

    static void make(String[] words) throws Exception {
        authorizer = new AclAuthorizer();
        Set<KafkaPrincipal> users = new HashSet<>();
        for (String user : words[1].split(";")) users.add(SecurityUtils.parseKafkaPrincipal(user));
        set("superUsers", CollectionConverters.asScala(users).toSet());
        set("shouldAllowEveryoneIfNoAclIsFound", Boolean.parseBoolean(words[2]));
    }

    static void set(String name, Object value) throws Exception {
        for (Field field : AclAuthorizer.class.getDeclaredFields()) {
            if (!field.getName().endsWith(name)) continue;
            field.setAccessible(true);
            field.set(authorizer, value);
            return;
        }
        throw new NoSuchFieldException(name);
    }

    static void load(String[] words) {
        ResourcePattern resource = new ResourcePattern(
            ResourceType.valueOf(words[1]), words[3], PatternType.valueOf(words[2]));
        Set<AclEntry> entries = new HashSet<>();
        for (int at = 4; at + 3 < words.length; at += 4)
            entries.add(new AclEntry(new AccessControlEntry(words[at], words[at + 1],
                AclOperation.valueOf(words[at + 2]), AclPermissionType.valueOf(words[at + 3]))));
        authorizer.updateCache(resource,
            new AclAuthorizer.VersionedAcls(CollectionConverters.asScala(entries).toSet(), 1));
    }

    static RequestContext context(String[] words) throws Exception {
        return new RequestContext(
            new RequestHeader(ApiKeys.PRODUCE, (short) 9, "client", 1), "1",
            InetAddress.getByName(words[3]), new KafkaPrincipal(words[1], words[2]),
            ListenerName.normalised("listener"), SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY,
            false);
    }

    static AuthorizationResult ask(String[] words) throws Exception {
        Action action = new Action(AclOperation.valueOf(words[4]),
            new ResourcePattern(ResourceType.valueOf(words[5]), words[6], PatternType.LITERAL),
            1, false, false);
        return authorizer.authorize(context(words), Collections.singletonList(action)).get(0);
    }

    static AuthorizationResult any(String[] words) throws Exception {
        return authorizer.authorizeByResourceType(
            context(words), AclOperation.valueOf(words[4]), ResourceType.valueOf(words[5]));
    }

    static char digit(AuthorizationResult result) {
        return result == AuthorizationResult.ALLOWED ? '1' : '0';
    }
}
