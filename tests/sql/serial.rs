//! `snowflake_pg.serial_schemas` gives Snowflake IDs to the serial and identity columns of new tables, and leaves alone
//! what somebody has decided otherwise.

mod columns;
mod family;
mod left;
mod references;
mod rights;

use std::sync::{Arc, Mutex};
use testbed::postgres::error::DbError;
use testbed::postgres::{Client, Config, NoTls};
use testbed::{Cluster, Database, value};

/// A session, and what the server has told it.
struct Session {
    client: Client,
    told: Arc<Mutex<Vec<DbError>>>,
}

impl Session {
    fn of(mut config: Config) -> Self {
        let told = Arc::<Mutex<Vec<DbError>>>::default();
        let telling = Arc::clone(&told);
        config.notice_callback(move |notice| telling.lock().expect("no panic").push(notice));
        Self { client: config.connect(NoTls).expect("a session"), told }
    }

    /// Runs statements, and returns what the server said: severity, message and detail.
    fn run(&mut self, statements: &str) -> Vec<String> {
        self.client.batch_execute(statements).unwrap_or_else(|error| panic!("{statements}: {error:?}"));
        let told = std::mem::take(&mut *self.told.lock().expect("no panic"));
        let line = |notice: DbError| {
            let detail = notice.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
            format!("{}: {}{detail}", notice.severity(), notice.message())
        };
        told.into_iter().map(line).collect()
    }

    fn value(&mut self, query: &str) -> String {
        value(&mut self.client, query)
    }

    /// The columns of a table: name, type, NOT NULL, default and identity.
    fn columns(&mut self, table: &str) -> String {
        self.value(&format!(
            "SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'NOT NULL' END,
                 pg_get_expr(adbin, adrelid), nullif(attidentity, '')), ', ' ORDER BY attnum)
             FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
             WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped"
        ))
    }

    /// The sequences of this database, but for those of the catalogs.
    fn sequences(&mut self) -> String {
        self.value("SELECT coalesce(string_agg(oid::regclass::text, ' '), '') FROM pg_class WHERE relkind = 'S'")
    }
}

/// What a column becomes.
const CHANGED: &str = "id bigint NOT NULL ids.snowflake_id()";

/// What is said then.
fn gets_ids(table: &str) -> String {
    format!("NOTICE: column \"id\" of table \"{table}\" gets Snowflake IDs")
}

/// A database where all schemas are chosen, and all types, with the extension in a schema that no search_path has.
fn database() -> (Database, Session) {
    let database = Cluster::builder().worker(7).database();
    let set = |setting: &str| format!("ALTER DATABASE {} SET snowflake_pg.{setting};", database.name());
    let setting = set("serial_schemas = '*'") + &set("widen_serial = on");
    database
        .connect()
        .batch_execute(&format!("CREATE SCHEMA ids; CREATE EXTENSION snowflake_pg SCHEMA ids; {setting}"))
        .expect("the extension");
    let session = Session::of(database.config());
    (database, session)
}
