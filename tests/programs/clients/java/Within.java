import java.sql.DriverManager;
import java.sql.SQLException;
import java.time.OffsetDateTime;
import java.util.ArrayList;

class Within {
    public static void main(String[] arguments) throws SQLException {
        var url = "jdbc:postgresql://" + arguments[0] + "/" + System.getenv("PGDATABASE");
        var found = new ArrayList<Integer>();
        try (var connection = DriverManager.getConnection(url, System.getenv("PGUSER"), null);
                var query = connection.prepareStatement("SELECT n FROM orders WHERE snowflake_within(id, ?)")) {
            query.setObject(1, OffsetDateTime.now().minusHours(1));
            try (var rows = query.executeQuery()) {
                while (rows.next()) {
                    found.add(rows.getInt("n"));
                }
            }
        }
        System.out.println("{\"since\": " + found + "}");
    }
}
