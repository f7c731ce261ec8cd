//! The ways to insert. In their text, `{table}` is a table, `{key}` its key, `{default}` the default of its column
//! `id`, and `{mark}` a word by which the rows of this statement are found.

/// A statement that takes IDs from the default of a column.
pub struct Statement {
    /// Its name in the table of results.
    pub name: &'static str,
    pub sent: Sent,
    /// The number of IDs that it takes; `None` where each row of the table gets one.
    pub ids: Option<usize>,
    pub issuers: Issuers,
    /// The query that finds them.
    pub stored: &'static str,
}

/// The nodes that issue the IDs of a statement, as the table in docs/sharding.md has them.
#[derive(Clone, Copy)]
pub enum Issuers {
    /// The node to which it was sent.
    SentTo,
    /// Every node that has shards of the source: each has some of the rows.
    OfSource,
    /// Some of these: the rows are grouped anew, and too few for all.
    SomeOfSource,
    /// Every node that has shards of the table. A table without shards is on the node to which the statement was sent.
    OfTable,
}

/// How it is sent. IDs that it returns are in its first column.
pub enum Sent {
    /// As text, one after the other in a session.
    Text(&'static [&'static str]),
    /// Prepared, and executed until PostgreSQL uses a generic plan. Its parameters are tenant and mark.
    Prepared(&'static str),
    /// Reads a row for each of ten tenants.
    CopyIn(&'static str),
    /// Writes the IDs that it returns.
    CopyOut(&'static str),
}

/// How often a prepared statement is executed. PostgreSQL considers a generic plan from the sixth execution on.
pub const EXECUTIONS: i32 = 10;

impl Statement {
    /// The name as an identifier.
    pub fn identifier(&self) -> String {
        self.name.to_lowercase().replace([' ', '/'], "_")
    }
}

const fn statement(name: &'static str, ids: usize, sent: Sent) -> Statement {
    let stored = "SELECT id FROM {table} WHERE note = '{mark}'";
    Statement { name, sent, ids: Some(ids), issuers: Issuers::SentTo, stored }
}

impl Statement {
    const fn issued(self, issuers: Issuers) -> Self {
        Self { issuers, ..self }
    }
}

/// The last one adds columns to the tables.
pub const STATEMENTS: &[Statement] = &[
    statement("INSERT of a row", 1, Sent::Text(&["INSERT INTO {table} (tenant, note) VALUES (1, '{mark}')"])),
    statement(
        "INSERT of several rows",
        3,
        Sent::Text(&["INSERT INTO {table} (tenant, note) VALUES (1, '{mark}'), (2, '{mark}'), (3, '{mark}')"]),
    ),
    statement(
        "INSERT of DEFAULT",
        2,
        Sent::Text(&["INSERT INTO {table} (tenant, id, note) VALUES (1, DEFAULT, '{mark}'), (2, DEFAULT, '{mark}')"]),
    ),
    statement(
        "INSERT of a call",
        2,
        Sent::Text(&[
            "INSERT INTO {table} (tenant, id, note) VALUES (1, {default}, '{mark}'), (2, {default}, '{mark}')",
        ]),
    ),
    statement(
        "INSERT RETURNING",
        3,
        Sent::Text(&[
            "INSERT INTO {table} (tenant, note) VALUES (1, '{mark}') RETURNING id",
            "INSERT INTO {table} (tenant, note) VALUES (2, '{mark}'), (3, '{mark}') RETURNING id",
        ]),
    ),
    statement(
        "INSERT in a transaction",
        3,
        Sent::Text(&[
            "BEGIN",
            "INSERT INTO {table} (tenant, note) VALUES (1, '{mark}') RETURNING id",
            "INSERT INTO {table} (tenant, note) VALUES (2, '{mark}'), (3, '{mark}') RETURNING id",
            "COMMIT",
        ]),
    ),
    statement("prepared INSERT", 10, Sent::Prepared("INSERT INTO {table} (tenant, note) VALUES ($1, $2) RETURNING id")),
    statement(
        "prepared INSERT of several rows",
        20,
        Sent::Prepared("INSERT INTO {table} (tenant, note) VALUES ($1, $2), ($1 + 1, $2) RETURNING id"),
    ),
    statement(
        "INSERT ON CONFLICT DO NOTHING",
        2,
        Sent::Text(&["INSERT INTO {table} (tenant, note) VALUES (1, '{mark}'), (2, '{mark}') ON CONFLICT DO NOTHING"]),
    ),
    statement(
        "INSERT ON CONFLICT DO UPDATE",
        2,
        Sent::Text(&["INSERT INTO {table} (tenant, note) VALUES (1, '{mark}'), (2, '{mark}')
                      ON CONFLICT ({key}) DO UPDATE SET note = excluded.note RETURNING id"]),
    ),
    statement(
        "INSERT in a CTE",
        2,
        Sent::Text(&[
            "WITH new AS (INSERT INTO {table} (tenant, note) VALUES (1, '{mark}'), (2, '{mark}') RETURNING id)
                      SELECT id FROM new",
        ]),
    ),
    statement(
        "INSERT in a PL/pgSQL function",
        10,
        Sent::Text(&["SELECT {table}_put(tenant, '{mark}') FROM generate_series(1, 10) tenant"]),
    ),
    statement(
        "INSERT SELECT from a function",
        10,
        Sent::Text(&["INSERT INTO {table} (tenant, note) SELECT tenant, '{mark}' FROM generate_series(1, 10) tenant
                      RETURNING id"]),
    ),
    statement(
        "INSERT SELECT from a distributed table",
        10,
        Sent::Text(&["INSERT INTO {table} (tenant, note) SELECT tenant, '{mark}' FROM source"]),
    )
    .issued(Issuers::OfSource),
    statement(
        "INSERT SELECT from a reference table",
        10,
        Sent::Text(&["INSERT INTO {table} (tenant, note) SELECT tenant, '{mark}' FROM copied_source"]),
    ),
    statement(
        "INSERT SELECT with a call",
        10,
        Sent::Text(&["INSERT INTO {table} (tenant, id, note) SELECT tenant, {default}, '{mark}' FROM source"]),
    )
    .issued(Issuers::OfSource),
    statement(
        "INSERT SELECT RETURNING",
        10,
        Sent::Text(&["INSERT INTO {table} (tenant, note) SELECT tenant, '{mark}' FROM source RETURNING id"]),
    )
    .issued(Issuers::OfSource),
    statement(
        "INSERT SELECT of groups",
        10,
        Sent::Text(&["INSERT INTO {table} (tenant, note) SELECT tenant, '{mark}' FROM source GROUP BY tenant"]),
    )
    .issued(Issuers::OfSource),
    statement(
        "INSERT SELECT of other groups",
        2,
        Sent::Text(&[
            "INSERT INTO {table} (tenant, note) SELECT max(tenant), '{mark}' FROM source GROUP BY tenant % 2",
        ]),
    )
    .issued(Issuers::SomeOfSource),
    statement(
        "INSERT SELECT with a limit",
        5,
        Sent::Text(&["INSERT INTO {table} (tenant, note) SELECT tenant, '{mark}' FROM source ORDER BY tenant LIMIT 5"]),
    )
    .issued(Issuers::OfSource),
    statement("COPY FROM STDIN", 10, Sent::CopyIn("COPY {table} (tenant, note) FROM STDIN")),
    statement(
        "COPY of an INSERT",
        2,
        Sent::CopyOut(
            "COPY (INSERT INTO {table} (tenant, note) VALUES (1, '{mark}'), (2, '{mark}') RETURNING id) TO STDOUT",
        ),
    ),
    statement(
        "MERGE",
        10,
        Sent::Text(&[
            "MERGE INTO {table} target USING source ON target.tenant = source.tenant AND target.note = '{mark}'
                      WHEN NOT MATCHED THEN INSERT (tenant, note) VALUES (source.tenant, '{mark}')",
        ]),
    ),
    Statement {
        name: "ALTER TABLE ADD COLUMN",
        sent: Sent::Text(&[
            "INSERT INTO {table} (tenant, note) VALUES (1, '{mark}'), (2, '{mark}'), (3, '{mark}')",
            "ALTER TABLE {table} ADD COLUMN {mark} bigint DEFAULT {default}",
        ]),
        ids: None,
        issuers: Issuers::OfTable,
        stored: "SELECT {mark} FROM {table}",
    },
];
