import { customType } from "drizzle-orm/pg-core";

// recipe
const snowflake = customType({
  dataType: () => "snowflake",
  fromDriver: (value) => BigInt(value),
  toDriver: (value) => String(value),
});
// end

export { snowflake };
