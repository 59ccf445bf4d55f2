import java.sql.Connection;
import java.sql.DriverManager;
import java.util.Map;

/** A JDBC driver with the generated URL: URL USER SLEEP. */
final class Jdbc {
    public static void main(String[] arguments) throws Exception {
        String url = arguments[0];
        String user = arguments[1];
        Connection held = DriverManager.getConnection(url, user, null);
        Connection idle = DriverManager.getConnection(url, user, null);
        Conversation.hold(Map.of(
            "connect", () -> DriverManager.getConnection(url, user, null),
            "idle", () -> idle.createStatement().execute("SELECT 1"),
            "flight", () -> held.createStatement().execute(arguments[2])));
    }
}
