// recipe
import { customType } from "drizzle-orm/pg-core";

const snowflake = customType({
  dataType: () => "snowflake",
  fromDriver: (value) => BigInt(value),
  toDriver: (value) => String(value),
});
// end

export { snowflake };
