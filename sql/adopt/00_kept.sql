-- snowflake_adopt: plans that give existing tables Snowflake IDs, or take them back. `make install` joins the files of
-- this folder.

-- Plans are commands for \gexec. Making one changes nothing. search_path is always the same one, so that names in
-- commands show their schemas.
--
-- Only the functions that users need may be called by everybody: 17_rights.sql has them. The others run with the rights
-- of their owner, a superuser. What concerns a table, or can run code of somebody else, they do by do_as(), as the
-- owner of the table.

-- This file has what an update keeps: an older version has it already, so a change of it is also one of
-- from-VERSION.psql. All else is created again, by OR REPLACE.

-- The schema goes with the extension. This fails if there is such a schema, since its owner could create functions in
-- it.
CREATE SCHEMA snowflake_adopt;
COMMENT ON SCHEMA snowflake_adopt IS 'plans that give existing tables Snowflake IDs, or take them back';
-- For 17_rights.sql.
SELECT pg_catalog.set_config('snowflake_adopt.had'::text, '{}'::text, true);

CREATE TYPE snowflake_adopt.step AS (step integer, command text, note text);
COMMENT ON TYPE snowflake_adopt.step IS 'row of a plan';
COMMENT ON COLUMN snowflake_adopt.step.command IS
    'to be run, in order; NULL for a remark or an obstacle, or if there is nothing to do';
COMMENT ON COLUMN snowflake_adopt.step.note IS
    'what the command does, rewrites and locks; or what the plan does not change, or what prevents it';

-- Adopting online: which migrations there are

CREATE TABLE snowflake_adopt.migration (
    relation regclass PRIMARY KEY,
    column_name name NOT NULL,
    role regrole NOT NULL,
    goal text NOT NULL DEFAULT 'started' CHECK (goal IN ('started', 'copied', 'adopted', 'undone')),
    is_paused boolean NOT NULL DEFAULT false,
    is_published boolean NOT NULL DEFAULT false,
    share integer NOT NULL DEFAULT 50 CHECK (share BETWEEN 1 AND 100),
    max_lag interval NOT NULL DEFAULT '10 s',
    max_step interval NOT NULL DEFAULT '1 day',
    phase text NOT NULL DEFAULT 'columns',
    done text[] NOT NULL DEFAULT '{}',
    waits_for text,
    is_at_work boolean NOT NULL DEFAULT false,
    ends integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    repeats integer NOT NULL DEFAULT 0,
    error text,
    begun_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    turn_at timestamptz
);
COMMENT ON TABLE snowflake_adopt.migration IS
    'tables whose IDs are becoming Snowflake IDs while they are in use; see snowflake_adopt.progress';

CREATE TABLE snowflake_adopt.beside (
    migration regclass NOT NULL REFERENCES snowflake_adopt.migration ON DELETE CASCADE,
    relation regclass NOT NULL,
    column_name name NOT NULL,
    beside name NOT NULL,
    is_analyzed boolean NOT NULL DEFAULT false,
    PRIMARY KEY (relation, column_name)
);
COMMENT ON TABLE snowflake_adopt.beside IS
    'columns that are narrower than bigint, and the names of the columns that take their places';

CREATE TABLE snowflake_adopt.copying (
    migration regclass NOT NULL REFERENCES snowflake_adopt.migration ON DELETE CASCADE,
    relation regclass PRIMARY KEY,
    filenode oid NOT NULL,
    blocks bigint NOT NULL,
    todo int8multirange NOT NULL,
    again int8multirange NOT NULL DEFAULT '{}',
    batch integer NOT NULL DEFAULT 64,
    rows bigint NOT NULL DEFAULT 0,
    took interval NOT NULL DEFAULT '0',
    busy interval NOT NULL DEFAULT '0'
);
COMMENT ON TABLE snowflake_adopt.copying IS
    'blocks of tables and partitions whose rows are still to be copied into the columns beside';

CREATE TABLE snowflake_adopt.made (
    migration regclass NOT NULL REFERENCES snowflake_adopt.migration ON DELETE CASCADE,
    constraint_oid oid PRIMARY KEY
);
COMMENT ON TABLE snowflake_adopt.made IS
    'constraints that a migration has made, since the owner of a table can give others their names';
