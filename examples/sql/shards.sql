-- Rows whose ID says in which of 256 logical shards they are. docs/sharding.md explains it. The layout of the server is
-- t41 w5 s9 h8.

CREATE TABLE notes (
    id    bigint PRIMARY KEY,
    shard integer NOT NULL,
    body  text,
    -- The layout is named, so that the check means the same on every server.
    CHECK ((snowflake_decode(id, 't41 w5 s9 h8')).tag = shard)
);

-- A default cannot see another column.
CREATE FUNCTION number_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.id := snowflake_nextval_tagged(NEW.shard);
    RETURN NEW;
END
$$;

CREATE TRIGGER number_note BEFORE INSERT ON notes FOR EACH ROW WHEN (NEW.id IS NULL) EXECUTE FUNCTION number_note();

-- For all rows of a shard.
CREATE INDEX ON notes (((snowflake_decode(id, 't41 w5 s9 h8')).tag));
