-- An outbox, and consumers that apply each event exactly once. docs/reading.md explains it.

-- Applications insert an event in the transaction that causes it.
CREATE TABLE outbox (
    id    bigint PRIMARY KEY DEFAULT snowflake_nextval(),
    topic text NOT NULL,
    body  jsonb NOT NULL
);

-- The last event that each consumer has applied.
CREATE TABLE consumers (name text PRIMARY KEY, last bigint NOT NULL DEFAULT 0);

-- What this consumer makes of the events: how many there are of each topic.
CREATE TABLE topics (topic text PRIMARY KEY, events bigint NOT NULL);

INSERT INTO consumers (name) VALUES ('count topics');

-- Applies up to so many events, and returns how many. Effect and cursor commit together, so that a crash loses neither
-- and repeats neither. Run it in a transaction of its own, again at once if it returns as many as asked, else after a
-- while.
CREATE FUNCTION count_topics(batch integer DEFAULT 1000) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    applied bigint;
    before bigint;
    following bigint;
BEGIN
    -- Others that run this consumer wait here, and then see the new cursor.
    SELECT last INTO STRICT before FROM consumers WHERE name = 'count topics' FOR UPDATE;
    WITH polled AS MATERIALIZED (
        SELECT * FROM snowflake_poll(NULL::outbox, before, batch)
    ), counted AS (
        INSERT INTO topics AS known SELECT topic, count(*) FROM polled GROUP BY topic
            ON CONFLICT (topic) DO UPDATE SET events = known.events + excluded.events
    )
    SELECT count(*), max(id) INTO applied, following FROM polled;
    UPDATE consumers SET last = following WHERE name = 'count topics' AND following > last;
    RETURN applied;
END
$$;
