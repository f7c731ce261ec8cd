import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.annotation.JsonSerialize;
import com.fasterxml.jackson.databind.ser.std.ToStringSerializer;
import java.io.IOException;

class Json {
    // recipe
    record Order(@JsonSerialize(using = ToStringSerializer.class) long id) {}
    // end

    public static void main(String[] arguments) throws IOException {
        var order = new Order(2125412474722189368L);
        var mapper = new ObjectMapper();
        var text = mapper.writeValueAsString(order);
        if (!mapper.readValue(text, Order.class).equals(order)) {
            throw new AssertionError(text);
        }
        System.out.println(text);
    }
}
