import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/**
 * A REST catalogue of Apache Iceberg's own classes, over its catalogue in SQLite.
 *
 * <p>Arguments: the token without which it answers 401, and properties of the catalogue as
 * NAME=VALUE. It prints its port, and ends with its standard input.
 */
public final class RestCatalogue {
  private static final class Closed extends RESTCatalogServlet {
    private final String wanted;

    Closed(RESTCatalogAdapter adapter, String token) {
      super(adapter);
      wanted = "Bearer " + token;
    }

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response)
        throws IOException, jakarta.servlet.ServletException {
      if (wanted.equals(request.getHeader("Authorization"))) {
        super.service(request, response);
        return;
      }
      response.setStatus(401);
      response.setContentType("application/json");
      response
          .getWriter()
          .write(
              "{\"error\":{\"message\":\"not with "
                  + request.getHeader("Authorization")
                  + "\",\"type\":\"NotAuthorizedException\",\"code\":401}}");
    }
  }

  public static void main(String[] arguments) throws Exception {
    Map<String, String> properties = new HashMap<>();
    for (int place = 1; place < arguments.length; place++) {
      String[] parts = arguments[place].split("=", 2);
      properties.put(parts[0], parts[1]);
    }
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize("rest", properties);
    ServletContextHandler handler = new ServletContextHandler();
    handler.addServlet(
        new ServletHolder(new Closed(new RESTCatalogAdapter(catalog), arguments[0])), "/*");
    Server server = new Server(new InetSocketAddress("127.0.0.1", 0));
    server.setHandler(handler);
    server.start();
    System.out.println(((ServerConnector) server.getConnectors()[0]).getLocalPort());
    while (System.in.read() != -1) {}
    System.exit(0);
  }
}
