//! Answers to queries, in the form that tests compare.

use postgres::Client;
use postgres::error::DbError;

/// The server's error that a query must end with.
pub fn error(client: &mut Client, query: &str) -> DbError {
    match client.simple_query(query) {
        Ok(_) => panic!("{query} must fail"),
        Err(error) => error.as_db_error().unwrap_or_else(|| panic!("{query}: {error:?}")).clone(),
    }
}

/// Whether an error has this SQLSTATE, and these words in its message, DETAIL or HINT. Not whole sentences:
/// docs/errors.md has those, and they can change.
pub fn assert_refused(error: &DbError, code: &str, words: &[&str]) {
    let texts = [Some(error.message()), error.detail(), error.hint()];
    let text = texts.into_iter().flatten().collect::<Vec<_>>().join("\n");
    assert_eq!(error.code().code(), code, "{text}");
    for word in words {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
}

/// The only value that a query returns, as psql would show it; "NULL" for NULL.
pub fn value(client: &mut Client, query: &str) -> String {
    let values = values(client, query);
    assert_eq!(values.len(), 1, "{query} must return one row: {values:?}");
    values.concat()
}

/// Whether a query returns one row, and true. What other sessions do can have no row yet.
pub fn is_true(client: &mut Client, query: &str) -> bool {
    values(client, query) == ["t"]
}

fn values(client: &mut Client, query: &str) -> Vec<String> {
    let messages = client.simple_query(query).unwrap_or_else(|error| panic!("{query}: {error:?}"));
    let rows = messages.iter().filter_map(|message| match message {
        postgres::SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| row.get(0).unwrap_or("NULL").to_owned()).collect()
}

/// What an EXPLAIN shows.
pub fn plan(client: &mut Client, explain: &str) -> String {
    let rows = client.query(explain, &[]).unwrap_or_else(|error| panic!("{explain}: {error:?}"));
    rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
}

/// A condition that is true if a row of `pg_stat_activity` shows this wait event of the extension. Before PostgreSQL
/// 17, events of extensions have no names.
pub fn waits_for(event: &str) -> String {
    let name =
        format!("CASE WHEN current_setting('server_version_num')::int < 170000 THEN 'Extension' ELSE '{event}' END");
    format!("(wait_event_type = 'Extension' AND wait_event = {name})")
}
