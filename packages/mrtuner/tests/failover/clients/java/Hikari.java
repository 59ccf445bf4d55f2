import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.util.Map;

/** HikariCP with the generated properties: FILE. */
final class Hikari {
    public static void main(String[] arguments) throws Exception {
        var pool = open(arguments[0]);
        Connection held = pool.getConnection();
        while (pool.getHikariPoolMXBean().getTotalConnections() < pool.getMaximumPoolSize()) {
            Thread.sleep(20);
        }
        Thread.sleep(600); // it does not check a connection used within half a second
        Conversation.hold(Map.of(
            "connect", () -> {
                var config = new HikariConfig(arguments[0]);
                config.setInitializationFailTimeout(-1); // as if the pool were older than the fault
                return ask(new HikariDataSource(config), "SELECT 1");
            },
            "idle", () -> ask(pool, "SELECT 1"),
            "flight", () -> held.createStatement().execute("SELECT pg_sleep(60)")));
    }

    private static HikariDataSource open(String file) {
        return new HikariDataSource(new HikariConfig(file));
    }

    private static boolean ask(HikariDataSource pool, String query) throws Exception {
        try (var connection = pool.getConnection()) {
            return connection.createStatement().execute(query);
        }
    }
}
