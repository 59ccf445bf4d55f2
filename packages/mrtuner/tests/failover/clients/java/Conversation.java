import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.Callable;

/** The protocol of every Java client. */
final class Conversation {
    static void hold(Map<String, Callable<?>> cases) throws Exception {
        System.out.println("ready");
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String name = line;
            new Thread(() -> tell(name, cases.get(name))).start();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void tell(String name, Callable<?> run) {
        String said = "answered";
        try {
            run.call();
        } catch (Exception error) {
            said = "failed " + error.toString().lines().findFirst().orElse("");
        }
        System.out.println(name + " " + said);
    }
}
