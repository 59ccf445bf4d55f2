import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.sql.Connection;
import java.util.ArrayList;
import java.util.List;
import javax.naming.InitialContext;
import javax.sql.DataSource;

/** Takes connections of the generated datasource; each request runs one case. */
@WebServlet("/*")
public final class Wild extends HttpServlet {
    private static volatile Connection held;

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response)
            throws IOException {
        String said = "answered";
        try {
            run(request.getPathInfo().substring(1));
        } catch (Exception error) {
            said = "failed " + error.toString().lines().findFirst().orElse("");
        }
        response.getWriter().print(said);
    }

    private static void run(String name) throws Exception {
        switch (name) {
            case "open" -> open(InitialContext.doLookup("java:/ShopDS"));
            case "idle" -> ask("java:/ShopDS");
            case "connect" -> ask("java:/LateDS");
            default -> held.createStatement().execute("SELECT pg_sleep(60)");
        }
    }

    /** Holds one connection and leaves three idle in the pool. */
    private static void open(DataSource pool) throws Exception {
        List<Connection> idle = new ArrayList<>();
        for (int each = 0; each < 3; each++) {
            idle.add(pool.getConnection());
        }
        held = pool.getConnection();
        for (Connection one : idle) {
            one.createStatement().execute("SELECT 1");
            one.close();
        }
    }

    private static void ask(String name) throws Exception {
        DataSource pool = InitialContext.doLookup(name);
        try (var connection = pool.getConnection()) {
            connection.createStatement().execute("SELECT 1");
        }
    }
}
