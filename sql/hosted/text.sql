-- IDs as texts and UUIDs: the same number, so no layout is needed.

-- The digits of an encoding, from 0 on.
CREATE OR REPLACE FUNCTION ids.snowflake_digits(encoding text, alphabet text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    usual text := CASE lower(encoding COLLATE "C")
        WHEN 'base62' THEN '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
        WHEN 'base58' THEN '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
        WHEN 'crockford32' THEN '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
        WHEN 'hex' THEN '0123456789abcdef' END;
    reason text;
    letter text;
    first integer;
BEGIN
    IF usual IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('unrecognized encoding: "%s"', encoding),
            HINT = 'The encodings are base62, base58, crockford32, hex.';
    ELSIF alphabet IS NULL THEN
        RETURN usual;
    END IF;
    reason := CASE WHEN length(usual) < 58 THEN 'Only base62 and base58 can have a custom alphabet' END;
    FOR at IN 1..length(alphabet) LOOP
        EXIT WHEN reason IS NOT NULL;
        letter := substr(alphabet, at, 1);
        first := strpos(alphabet COLLATE "C", letter);
        reason := format('Character %s is "%s", which is ', at, letter) || CASE
            WHEN letter !~ '[!-~]' THEN 'not an ASCII letter, digit or punctuation mark'
            WHEN first < at THEN format('already character %s', first) END;
    END LOOP;
    IF reason IS NULL AND length(alphabet) <> length(usual) THEN
        reason := format('The alphabet has %s characters, and %s are needed', length(alphabet), length(usual));
    END IF;
    IF reason IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('invalid alphabet for %s: "%s"', lower(encoding COLLATE "C"), alphabet),
            DETAIL = reason || '.';
    END IF;
    RETURN alphabet;
END
$$;
COMMENT ON FUNCTION ids.snowflake_digits(text, text) IS 'not to be called directly: the digits of an encoding';

-- Not STRICT: no alphabet means the usual one. NULL for another argument gives NULL.
CREATE OR REPLACE FUNCTION ids.snowflake_to_text(id bigint, encoding text, alphabet text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    digits text;
    base integer;
    remaining bigint := id;
    written text := '';
BEGIN
    IF id IS NULL OR encoding IS NULL THEN
        RETURN NULL;
    END IF;
    digits := ids.snowflake_digits(encoding, alphabet);
    PERFORM ids.snowflake_must_not_be_negative(id);
    base := length(digits);
    WHILE remaining > 0 OR length(written) < CASE base WHEN 32 THEN 13 WHEN 16 THEN 16 ELSE 1 END LOOP
        written := substr(digits, (remaining % base)::integer + 1, 1) || written;
        remaining := remaining / base;
    END LOOP;
    RETURN written;
END
$$;
COMMENT ON FUNCTION ids.snowflake_to_text(bigint, text, text) IS 'ID in base62, base58, crockford32 or hex';

CREATE OR REPLACE FUNCTION ids.snowflake_from_text(text text, encoding text, alphabet text DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    digits text;
    base integer;
    -- With the letters that mean another digit.
    cleaned text := text;
    letter text;
    digit integer;
    wrong text;
    number numeric := 0;
BEGIN
    IF text IS NULL OR encoding IS NULL THEN
        RETURN NULL;
    END IF;
    digits := ids.snowflake_digits(encoding, alphabet);
    base := length(digits);
    IF base = 32 THEN
        cleaned := translate(upper(text COLLATE "C"), 'ILO', '110');
    ELSIF base = 16 THEN
        cleaned := lower(text COLLATE "C");
    END IF;
    FOR at IN 1..length(cleaned) LOOP
        letter := substr(cleaned, at, 1);
        CONTINUE WHEN base = 32 AND letter = '-';
        digit := strpos(digits COLLATE "C", letter);
        IF digit = 0 THEN
            wrong := format('Character %s is "%s", which is not a digit of %s.', at, substr(text, at, 1),
                lower(encoding COLLATE "C"));
            EXIT;
        END IF;
        -- A wrong digit takes precedence over a number that is too large.
        number := least(number * base + digit - 1, 9223372036854775808);
    END LOOP;
    IF wrong IS NOT NULL OR digit IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_text_representation',
            MESSAGE = format('invalid input syntax for a Snowflake ID: "%s"', text),
            DETAIL = coalesce(wrong, 'The text has no digits.'),
            HINT = format('IDs are written with the digits %s.', digits);
    ELSIF number > 9223372036854775807 THEN
        RAISE EXCEPTION USING ERRCODE = 'numeric_value_out_of_range',
            MESSAGE = format('value is out of range for a Snowflake ID: "%s"', text),
            DETAIL = 'The value is greater than 9223372036854775807, the greatest ID.';
    END IF;
    RETURN number;
END
$$;
COMMENT ON FUNCTION ids.snowflake_from_text(text, text, text) IS 'ID from the text of snowflake_to_text()';

CREATE OR REPLACE FUNCTION ids.snowflake_to_uuid(id bigint) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (SELECT (left(h, 12) || '8' || substr(h, 13, 3) || to_hex(8 + ((id & 15) >> 2)) || to_hex((id & 3) << 2)
        || '00000000000000')::uuid
        FROM (SELECT lpad(to_hex(ids.snowflake_must_not_be_negative(id)), 16, '0') AS h) hex);
COMMENT ON FUNCTION ids.snowflake_to_uuid(bigint) IS 'ID as a UUID of version 8';

CREATE OR REPLACE FUNCTION ids.snowflake_from_uuid(uuid uuid) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    digits text := replace(uuid::text, '-', '');
    last integer := ('x' || substr(digits, 17, 2))::bit(8)::integer;
    number bigint := ('x' || left(digits, 12) || substr(digits, 14, 3) || '0')::bit(64)::bigint | ((last >> 2) & 15);
    reason text := CASE
        WHEN last >> 6 <> 2 THEN 'Its variant is not RFC 9562''s'
        WHEN substr(digits, 13, 1) <> '8'
            THEN format('Its version is %s, and an ID''s is 8', ('x' || substr(digits, 13, 1))::bit(4)::integer)
        WHEN (last & 3) <> 0 OR substr(digits, 19) <> repeat('0', 14) THEN 'Its last 58 bits are not all 0'
        WHEN number < 0 THEN format('The number in it, %s, is greater than 9223372036854775807, the greatest ID',
            number + 18446744073709551616) END;
BEGIN
    IF reason IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = CASE WHEN reason LIKE 'The%' THEN 'numeric_value_out_of_range'
            ELSE 'invalid_parameter_value' END,
            MESSAGE = format('UUID "%s" does not hold a Snowflake ID', uuid), DETAIL = reason || '.',
            HINT = 'Only UUIDs from snowflake_to_uuid() can be converted back.';
    END IF;
    RETURN number;
END
$$;
COMMENT ON FUNCTION ids.snowflake_from_uuid(uuid) IS 'ID from the UUID of snowflake_to_uuid()';
