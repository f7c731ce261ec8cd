import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

class Jdbc {
    public static void main(String[] arguments) throws SQLException {
        var url = "jdbc:postgresql://" + arguments[0] + "/" + System.getenv("PGDATABASE");
        var keys = new TreeMap<Integer, Long>();
        try (var connection = DriverManager.getConnection(url, System.getenv("PGUSER"), null);
                var create = connection.createStatement()) {
            create.execute("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer)");
            var numbers = IntStream.range(0, 500).boxed().toArray();
            // recipe
            var sql = "INSERT INTO orders (n) SELECT unnest(?::integer[]) RETURNING n, id";
            try (var insert = connection.prepareStatement(sql)) {
                insert.setArray(1, connection.createArrayOf("integer", numbers));
                try (var rows = insert.executeQuery()) {
                    while (rows.next()) {
                        keys.put(rows.getInt("n"), rows.getLong("id"));
                    }
                }
            }
            // end
        }
        var pairs = keys.entrySet().stream().map(key -> "\"%d\": \"%d\"".formatted(key.getKey(), key.getValue()));
        System.out.println("{\"type\": \"long\", \"keys\": {" + pairs.collect(Collectors.joining(", ")) + "}}");
    }
}
