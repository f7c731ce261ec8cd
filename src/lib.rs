//! PostgreSQL extension: 64-bit, time-ordered, decodable Snowflake IDs that are never issued twice.

::pgrx::pg_module_magic!();
