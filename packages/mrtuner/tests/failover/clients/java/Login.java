import java.io.FileReader;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.Properties;

/** Connects twice with a URL and a file of properties: prints for how many seconds, and why not. */
final class Login {
    public static void main(String[] arguments) throws Exception {
        var properties = new Properties();
        try (var file = new FileReader(arguments[1])) {
            properties.load(file);
        }
        for (int attempt = 0; attempt < 2; attempt++) {
            long began = System.nanoTime();
            try {
                DriverManager.getConnection(arguments[0], properties).close();
            } catch (SQLException error) {
                String why = error.getMessage().lines().findFirst().orElse("");
                System.out.println((System.nanoTime() - began) / 1e9 + " " + why);
            }
        }
    }
}
