-- The stored state: the position of the last ID, the lock, and which database has the worker ID.

-- When this server started: a session compares it before its first ID, and continues above what a crash or a failover
-- may have lost. Both empty this sequence, which is unlogged; so no subscription sets it.
--
-- snowflake_raise() takes the value by nextval(), which leaves log_cnt above 0. A dump has no log_cnt, and setval()
-- leaves 0, whatever is rolled back: so 0 shows that sequences were set by others. A dump sets this one first, by its
-- name and by its age.
CREATE UNLOGGED SEQUENCE IF NOT EXISTS ids.snowflake_began AS bigint MINVALUE 0 START 0;
COMMENT ON SEQUENCE ids.snowflake_began IS 'when the server started that issued the last ID; not to be changed';

-- The position of the last ID: its tick, and its number in the tick. Neither a rollback nor a lost session takes it
-- back, and it does not go back with the clock. snowflake_move() changes it, under the lock.
CREATE SEQUENCE IF NOT EXISTS ids.snowflake_position AS bigint MINVALUE 0 START 0;
COMMENT ON SEQUENCE ids.snowflake_position IS 'position of the last ID; not to be changed';

-- The same position, which takes precedence while it is there. A crash or a failover empties this sequence. No
-- subscription sets it, since it is unlogged.
CREATE UNLOGGED SEQUENCE IF NOT EXISTS ids.snowflake_high_water_mark AS bigint MINVALUE 0 START 0;
COMMENT ON SEQUENCE ids.snowflake_high_water_mark IS
    'position of the last ID since a crash or a failover; not to be changed';

-- The object that is locked for one ID. A view, since pg_dump, VACUUM and ANALYZE lock none. Only its owner can LOCK
-- it, while anybody can take an advisory lock. The mode conflicts with itself, and with no lock that other roles can
-- take.
CREATE OR REPLACE VIEW ids.snowflake_lock AS SELECT;
COMMENT ON VIEW ids.snowflake_lock IS 'not to be used: sessions that issue IDs lock it, one after the other';

-- The database that has the worker ID: a dump has this row, too, and is restored to another one.
CREATE TABLE IF NOT EXISTS ids.snowflake_database (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    system_identifier bigint NOT NULL,
    -- 0 after rows of a dump were restored into this database.
    database oid NOT NULL,
    relation oid NOT NULL,
    -- Equal to xmin of this row, which pg_upgrade keeps, and a dump does not.
    inserted_by xid8 NOT NULL,
    -- xmin of a catalog's row, which a logical replica keeps, and pg_upgrade does not. All three have another system
    -- identifier.
    catalog_xmin xid NOT NULL,
    version text NOT NULL
);
COMMENT ON TABLE ids.snowflake_database IS 'the database for which snowflake_set_worker_id() was called';
REVOKE ALL ON SEQUENCE ids.snowflake_position, ids.snowflake_high_water_mark, ids.snowflake_began FROM PUBLIC;
REVOKE ALL ON ids.snowflake_database, ids.snowflake_lock FROM PUBLIC;

-- Sets which call of snowflake_set_worker_id() is in force. Every session notices at its next ID.
CREATE OR REPLACE FUNCTION ids.snowflake_register(call text) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- mutant: hosted-running-statement
    LOCK TABLE ids.snowflake_lock IN SHARE UPDATE EXCLUSIVE MODE;
    EXECUTE format('CREATE OR REPLACE FUNCTION ids.snowflake_registration() RETURNS text LANGUAGE sql STABLE PARALLEL '
        'SAFE RETURN %L::text', call);
END
$$;
COMMENT ON FUNCTION ids.snowflake_register(text) IS
    'not to be called: sets which call of snowflake_set_worker_id() is in force';

-- When this server started. Statistics are reset after a crash that the postmaster survives.
CREATE OR REPLACE FUNCTION ids.snowflake_start() RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (extract(epoch FROM greatest(pg_postmaster_start_time(), (SELECT stats_reset FROM pg_stat_bgwriter)))
        * 1000000)::bigint;
COMMENT ON FUNCTION ids.snowflake_start() IS 'not to be called: when this server started, in Unix microseconds';

-- In PGlite, when its directory was made, in Unix seconds: loadDataDir restores the times of files, but not those of
-- directories. All else in a copy is equal there. pg_tblspc stays empty, so neither use nor a reload changes its time,
-- except in OPFS, where directories have no size. NULL there, and on servers, whose standbys have directories of their
-- own.
CREATE OR REPLACE FUNCTION ids.snowflake_directory_made() RETURNS bigint
    LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF version() LIKE '%emscripten%' AND has_function_privilege('pg_stat_file(text)', 'EXECUTE') THEN
        RETURN (SELECT extract(epoch FROM own.modification)
            FROM pg_stat_file('pg_tblspc') own, pg_stat_file('base') other WHERE other.size > 0);
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION ids.snowflake_directory_made() IS
    'not to be called: when the directory was made in PGlite, in Unix seconds; NULL on servers';

-- Whether others have set sequences.
CREATE OR REPLACE FUNCTION ids.snowflake_is_set_back() RETURNS boolean
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    began bigint := pg_sequence_last_value('ids.snowflake_began'::regclass);
BEGIN
    -- mutant: hosted-log-count
    IF (SELECT log_cnt = 0 FROM ids.snowflake_began) THEN
        -- Another value, or none: a session has taken it in between.
        RETURN began = pg_sequence_last_value('ids.snowflake_began'::regclass)
            -- pg_upgrade sets sequences, too.
            AND (began = ids.snowflake_start()
                OR EXISTS (SELECT FROM ids.snowflake_database JOIN pg_control_system() USING (system_identifier)));
    END IF;
    RETURN false;
END
$$;
COMMENT ON FUNCTION ids.snowflake_is_set_back() IS
    'not to be called: whether others have set sequences, as a dump does';

-- No rollback takes this back. snowflake_set_worker_id() does.
CREATE OR REPLACE FUNCTION ids.snowflake_refuse() RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM setval('ids.snowflake_began'::regclass, ids.snowflake_start());
END
$$;
COMMENT ON FUNCTION ids.snowflake_refuse() IS 'not to be called: lets no session begin to issue IDs';

-- Only snowflake_set_worker_id() inserts a row. A subscription brings the one of its publisher, which is ignored.
-- pg_restore --data-only brings an old one, and then sets the sequences back: this database is a copy from then on.
-- Where more commands could follow in the same transaction, an error keeps them from setting sequences, which a
-- rollback would not take back. Runs with the rights of the role that inserts: anybody can have a trigger call it.
CREATE OR REPLACE FUNCTION ids.snowflake_guard_database() RETURNS trigger
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_RELID <> 'ids.snowflake_database'::regclass THEN
        RAISE EXCEPTION USING ERRCODE = 'trigger_protocol_violated',
            MESSAGE = 'function "snowflake_guard_database" is for one table';
    ELSIF EXISTS (SELECT FROM pg_stat_subscription WHERE pid = pg_backend_pid()) THEN
        RETURN NULL;
    ELSIF TG_OP <> 'INSERT' THEN
        RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    -- mutant: hosted-rolled-back
    -- mutant: hosted-one-query
    ELSIF NEW.inserted_by <> pg_current_xact_id() AND (now() <> statement_timestamp()
        OR current_query() !~* '^(\s|--[^\n]*\n)*(COPY|INSERT\s+INTO)\s[^;]*;?\s*$') THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'rows of a dump cannot be restored into this table in a transaction',
            DETAIL = 'The dump would set the position of the last ID back.',
            HINT = format('Leave out this schema: pg_restore --exclude-schema=%s.', TG_TABLE_SCHEMA);
    ELSIF NEW.inserted_by <> pg_current_xact_id() THEN
        -- mutant: hosted-dump-rows
        PERFORM ids.snowflake_register(NULL);
        DELETE FROM ids.snowflake_database;
        NEW.database := 0;
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION ids.snowflake_guard_database() IS
    'not to be called: notices rows that a dump or a subscription brings';
CREATE OR REPLACE TRIGGER guard BEFORE INSERT OR UPDATE OR DELETE ON ids.snowflake_database FOR EACH ROW
    EXECUTE FUNCTION ids.snowflake_guard_database();
ALTER TABLE ids.snowflake_database ENABLE ALWAYS TRIGGER guard;

CREATE OR REPLACE FUNCTION ids.snowflake_catalog_xmin() RETURNS xid
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (SELECT t.xmin FROM pg_type t WHERE t.oid = 'ids.snowflake_fields'::regtype);
COMMENT ON FUNCTION ids.snowflake_catalog_xmin() IS
    'not to be called: the transaction that created the first type of the functions';

-- The last position. A standby cannot read the second sequence.
CREATE OR REPLACE FUNCTION ids.snowflake_last() RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    -- mutant: hosted-sequence-set
    RETURN coalesce(CASE WHEN NOT pg_is_in_recovery()
        THEN pg_sequence_last_value('ids.snowflake_high_water_mark'::regclass) END,
        pg_sequence_last_value('ids.snowflake_position'::regclass));
COMMENT ON FUNCTION ids.snowflake_last() IS 'not to be called: the position of the last ID';

-- The transaction has a transaction ID before, as readers of the horizon expect: setval() of a sequence that is in WAL
-- sees to that. The second sequence is what is read.
CREATE OR REPLACE FUNCTION ids.snowflake_set_last(id_position bigint) RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN setval('ids.snowflake_high_water_mark'::regclass, setval('ids.snowflake_position'::regclass, id_position));
COMMENT ON FUNCTION ids.snowflake_set_last(bigint) IS 'not to be called: sets the position of the last ID';

CREATE OR REPLACE FUNCTION ids.snowflake_unix_ms() RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN floor(date_part('epoch', clock_timestamp()) * 1000)::bigint;
COMMENT ON FUNCTION ids.snowflake_unix_ms() IS 'not to be called directly: the clock in Unix milliseconds';

-- The first position of the tick of a time.
CREATE OR REPLACE FUNCTION ids.snowflake_tick(ms bigint, f ids.snowflake_fields) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ((ms - f.epoch) / f.tick_ms) << f.sequence_bits;
COMMENT ON FUNCTION ids.snowflake_tick(bigint, ids.snowflake_fields) IS
    'not to be called: the first position of the tick of a time';

-- For a session that cannot know it, under the lock. If both sequences differ, others have set them: pg_restore -j may
-- have set these two, and not yet the one that would show it. No ID was further ahead of the clock than the position
-- that is set then.
CREATE OR REPLACE FUNCTION ids.snowflake_last_of_both(ms bigint, f ids.snowflake_fields) RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    -- mutant: hosted-both
    RETURN CASE WHEN pg_sequence_last_value('ids.snowflake_high_water_mark'::regclass)
        <> pg_sequence_last_value('ids.snowflake_position'::regclass)
            AND ms BETWEEN f.epoch AND f.issues_until
        THEN ids.snowflake_set_last(greatest(ids.snowflake_last(),
            ids.snowflake_tick(ms + ids.snowflake_max_ahead_ms(), f)))
        ELSE ids.snowflake_last() END;
COMMENT ON FUNCTION ids.snowflake_last_of_both(bigint, ids.snowflake_fields) IS
    'not to be called: the position of the last ID, for a session that cannot know it';

-- Continues above a time, or above an ID. Both are positions only under the lock, since the layout may be set before.
-- Then sets when the server started: after a crash in between, the position is raised once more. The lock is released
-- as in snowflake_take().
CREATE OR REPLACE FUNCTION ids.snowflake_raise(ms bigint, past bigint, start bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET client_min_messages = notice
    AS $$
DECLARE
    f ids.snowflake_fields;
BEGIN
    LOCK TABLE ids.snowflake_lock IN SHARE UPDATE EXCLUSIVE MODE;
    f := ids.snowflake_own_fields();
    -- Above the tick after the last ID: a horizon there had the bits of the worker of then.
    PERFORM ids.snowflake_set_last(greatest((ids.snowflake_last() + 1) | ~(-1::bigint << f.sequence_bits),
        ids.snowflake_tick(ms, f),
        ((past >> f.timestamp_shift) << f.sequence_bits) | ~(-1::bigint << f.sequence_bits)));
    IF pg_sequence_last_value('ids.snowflake_began'::regclass) IS DISTINCT FROM start AND start IS NOT NULL THEN
        PERFORM setval('ids.snowflake_began'::regclass, start, false);
        PERFORM nextval('ids.snowflake_began'::regclass);
    END IF;
    RAISE SQLSTATE 'SN000';
EXCEPTION WHEN SQLSTATE 'SN000' THEN
    RETURN;
END
$$;
COMMENT ON FUNCTION ids.snowflake_raise(bigint, bigint, bigint) IS
    'not to be called: continues above a time, or above an ID';
