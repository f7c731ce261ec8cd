// Models that know nothing of Snowflake IDs. Prisma's own engine makes the migration, applies it as `migrate deploy` does,
// and says what `db push` would change then.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { PrismaPg } from "@prisma/adapter-pg";
import { bindMigrationAwareSqlAdapterFactory } from "@prisma/driver-adapter-utils";
import pg from "pg";
import { numbers, report } from "../node/report.js";

const { PrismaClient } = createRequire(import.meta.url)("./node_modules/.prisma/serial");
const folder = "./node_modules/@prisma/schema-engine-wasm";
const engines = await import(`${folder}/schema_engine_bg.js`);
const module = readFileSync(new URL(`${folder}/schema_engine_bg.wasm`, import.meta.url));
const { instance } = await WebAssembly.instantiate(module, { "./schema_engine_bg.js": engines });
engines.__wbg_set_wasm(instance.exports);
instance.exports.__wbindgen_start();

// The engine reads columns of type "char", which the adapter does not know.
const { addFields } = pg.Result.prototype;
pg.Result.prototype.addFields = function (fields) {
  for (const field of fields) if (field.dataTypeID === 18) field.dataTypeID = 25;
  addFields.call(this, fields);
};

const content = readFileSync(new URL("serial/schema.prisma", import.meta.url), "utf8");
const files = [{ path: "schema.prisma", content }];
const filters = { externalTables: [], externalEnums: [] };
const factory = bindMigrationAwareSqlAdapterFactory(new PrismaPg({}));
const engine = await engines.SchemaEngine.new({ datamodels: [["schema.prisma", content]] }, () => {}, factory);
const diff = (from) =>
  engine.diff({ from, to: { tag: "schemaDatamodel", files }, script: true, shadowDatabaseUrl: null, exitCode: null, filters });
const { stdout } = await diff({ tag: "empty" });
const migration = { path: "1_init", migrationFile: { path: "migration.sql", content: { tag: "ok", value: stdout } } };
const lockfile = { path: "migration_lock.toml", content: 'provider = "postgresql"\n' };
const migrationsList = { baseDir: "/", lockfile, shadowDbInitScript: "", migrationDirectories: [migration] };
await engine.applyMigrations({ migrationsList, filters });

const prisma = new PrismaClient({ adapter: new PrismaPg({}) });
const user = await prisma.user.create({ data: { name: "Ada" } });
const orders = await prisma.order.createManyAndReturn({ data: numbers.map((n) => ({ n, userId: user.id })) });
if ((await prisma.order.count({ where: { user: { id: user.id } } })) !== 500) throw new Error("not found");
await prisma.$disconnect();

const { executedSteps } = await engine.schemaPush({ force: false, schema: { files }, filters });
report(orders.map(({ n, id }) => [n, id]), executedSteps ? `${executedSteps} steps` : "");
process.exit(0);
