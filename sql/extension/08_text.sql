-- IDs for outsiders

CREATE FUNCTION snowflake_encrypt(id bigint, key bytea) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 100 AS 'MODULE_PATHNAME', 'snowflake_encrypt_wrapper';
COMMENT ON FUNCTION snowflake_encrypt(bigint, bytea) IS
    'another ID, never negative, that shows neither time nor server nor volume to anyone without the key: FF1 of NIST '
    'SP 800-38G with AES, keys of 16, 24 or 32 bytes';

CREATE FUNCTION snowflake_decrypt(id bigint, key bytea) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 100 AS 'MODULE_PATHNAME', 'snowflake_decrypt_wrapper';
COMMENT ON FUNCTION snowflake_decrypt(bigint, bytea) IS
    'the ID that snowflake_encrypt() has encrypted; a different ID, and no error, if the key is wrong';

-- Text and UUID: the same number, so no layout is needed ------------------------------------------------------------

-- Not STRICT: no alphabet means the usual one. NULL for another argument gives NULL.
CREATE FUNCTION snowflake_to_text(id bigint, encoding text, alphabet text DEFAULT NULL) RETURNS text
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_to_text_wrapper';
COMMENT ON FUNCTION snowflake_to_text(bigint, text, text) IS
    'ID as a short text, for URLs: base62, base58, crockford32 (13 characters) or hex (16); the last two sort as the '
    'ID does, with COLLATE "C"; base62 and base58 take another alphabet of as many ASCII characters';

CREATE FUNCTION snowflake_from_text(text text, encoding text, alphabet text DEFAULT NULL) RETURNS bigint
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_from_text_wrapper';
COMMENT ON FUNCTION snowflake_from_text(text, text, text) IS
    'ID from the text of snowflake_to_text(); crockford32 and hex in any letter case, crockford32 also with I or L for '
    '1, O for 0, and hyphens';

CREATE FUNCTION snowflake_to_uuid(id bigint) RETURNS uuid
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_to_uuid_wrapper';
COMMENT ON FUNCTION snowflake_to_uuid(bigint) IS
    'ID as a UUID of version 8 (RFC 9562), which sorts as the ID does';

CREATE FUNCTION snowflake_from_uuid(uuid uuid) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_from_uuid_wrapper';
COMMENT ON FUNCTION snowflake_from_uuid(uuid) IS
    'ID from the UUID of snowflake_to_uuid(); an error for any other UUID';
