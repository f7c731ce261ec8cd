import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

class Shard {
    // recipe
    static long mixed(long id, int a, int b, int c) {
        a += (int) (id ^ id >> 32 ^ id >> 63);
        for (int turns : new int[] {14, 11, 25, 16, 4, 14, 24}) {
            int next = (c ^ b) - Integer.rotateLeft(b, turns);
            c = a;
            a = b;
            b = next;
        }
        return (long) a << 32 | Integer.toUnsignedLong(b);
    }

    static int shardOf(long id, int shards) {
        long hash = mixed(id, 0xe933553e, 0xc5da07a8, 0xfdfd95ed) + 0x49a0f4dd15e5a8e3L;
        return (int) Long.remainderUnsigned(hash, shards);
    }

    static int citusShard(long id, int count) {
        long hash = (int) mixed(id, 0x9e735654, 0x9e735654, 0x9e735654);
        return (int) Math.min((hash + (1L << 31)) / ((1L << 32) / count), count - 1);
    }

    static int workerShard(long id, int shards) {
        return (int) (id >> 12 & 1023) % shards;
    }
    // end

    public static void main(String[] arguments) throws IOException {
        int lines = 0;
        for (String line : Files.readAllLines(Path.of(System.getenv("SHARDS")))) {
            if (line.startsWith("#")) {
                continue;
            }
            long[] answer = Stream.of(line.split("\t")).mapToLong(Long::parseLong).toArray();
            int modulus = (int) answer[1];
            if (shardOf(answer[0], modulus) != answer[2]
                    || citusShard(answer[0], modulus) != answer[4]
                    || workerShard(answer[0], modulus) != answer[5]) {
                throw new AssertionError(line);
            }
            lines++;
        }
        System.out.println(lines);
    }
}
