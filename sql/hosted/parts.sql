-- The functions in plain SQL as parts, in a schema named ids. To work on them, make them in a database of your own,
-- again after each change: psql -1 -d dev -f sql/hosted/parts.sql
--
-- Users get one file, which `make pack NAME=scripts` makes: install.sql with these parts in it, which are made in any
-- schema. So each name of ours has the schema ids, also in texts; all others are found in pg_catalog. install.sql runs
-- the parts statement by statement, so no statement has an empty line.

\set ON_ERROR_STOP on
CREATE SCHEMA IF NOT EXISTS ids;
SET search_path = pg_catalog, pg_temp;

\ir layouts.sql
\ir decode.sql
\ir time_ranges.sql
\ir created_at.sql
\ir text.sql
\ir position.sql
\ir problem.sql
\ir issue.sql
\ir batches.sql
\ir place.sql
\ir reading.sql
\ir status.sql
\ir admin.sql
\ir rights.sql
