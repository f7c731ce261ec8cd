-- Overloads of the operators and functions of pg_catalog whose names are in hostile.words, in the schema public, for
-- every combination of common types. Each fails when it is called. PostgreSQL prefers one to a conversion of an
-- argument, wherever public is in the search_path.

-- Not by what is made here.
SET search_path = pg_catalog;

DO $$
DECLARE
    types text[] := (SELECT array_agg(named::regtype::text)
        FROM unnest(ARRAY['boolean', '"char"', 'smallint', 'integer', 'bigint',
        'real', 'double precision', 'numeric', 'text', 'name', 'varchar', 'oid', 'xid', 'regclass', 'timestamptz',
        'timestamp',
        'interval', 'jsonb', 'uuid', 'bytea', 'text[]', 'integer[]', 'bigint[]', 'anyelement']) named);
    words text[] := string_to_array(current_setting('hostile.words'), ' ');
    body text := 'LANGUAGE plpgsql AS ''BEGIN RAISE EXCEPTION $x$hostile code is run$x$; END''';
    operands text;
    other record;
BEGIN
    SET LOCAL check_function_bodies = off;
    FOR other IN
        SELECT DISTINCT ON (o.oprname, l.t, r.t) o.oprname AS name, l.t AS left_type, r.t AS right_type,
            -- As it would be, if a conversion leads to another operator.
            CASE WHEN o.oprname IN ('<', '<=', '=', '>=', '>', '<>', '~~', '!~~', '~', '!~', '~*', '!~*', '@>', '<@',
                '&&')
                THEN 'boolean' ELSE o.oprresult::regtype::text END AS result
        FROM pg_operator o, unnest(types) AS l(t), unnest(types) AS r(t)
        WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprkind = 'b' AND o.oprname = ANY (words)
            AND (o.oprresult::regtype::text = ANY (types))
        ORDER BY o.oprname, l.t, r.t, o.oprresult::regtype::text = r.t DESC, o.oprresult::regtype::text = l.t DESC,
            o.oid
    LOOP
        operands := format('%s, %s', other.left_type, other.right_type);
        IF other.result = 'anyelement' THEN
            CONTINUE;
        END IF;
        EXECUTE format('CREATE OR REPLACE FUNCTION public.%I(%s) RETURNS %s %s', 'operator ' || other.result, operands,
            other.result, body);
        EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.%I)', other.name,
            other.left_type, other.right_type, 'operator ' || other.result);
    END LOOP;

    FOR other IN
        WITH called AS (
            SELECT DISTINCT p.proname, n AS arity
            FROM pg_proc p, generate_series(p.pronargs - p.pronargdefaults,
                CASE WHEN p.provariadic <> 0 THEN 4 ELSE p.pronargs END) AS n
            WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind IN ('f', 'a', 'w')
                AND p.proname = ANY (words)
        ), signatures AS (
            SELECT proname, ARRAY[]::text[] AS arguments FROM called WHERE arity = 0
            UNION SELECT proname, ARRAY[a] FROM called, unnest(types) a WHERE arity = 1
            UNION SELECT proname, ARRAY[a, b] FROM called, unnest(types) a, unnest(types) b WHERE arity = 2
            -- Those that differ from one of pg_catalog's in one argument, or are for texts.
            UNION SELECT proname, array_fill('text'::text, ARRAY[arity]) FROM called WHERE arity > 2
            UNION SELECT p.proname,
                (SELECT array_agg(CASE WHEN nth = changed THEN t ELSE argument::regtype::text END ORDER BY nth)
                    FROM unnest(p.proargtypes) WITH ORDINALITY AS a(argument, nth))
            FROM pg_proc p, unnest(types) t, generate_series(1, p.pronargs) changed
            WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind IN ('f', 'a', 'w')
                AND p.proname = ANY (words)
                AND p.pronargs > 2 AND p.provariadic = 0
                AND NOT EXISTS (SELECT FROM unnest(p.proargtypes) a JOIN pg_type ON pg_type.oid = a WHERE typtype = 'p')
        )
        SELECT proname AS name, arguments,
            (SELECT CASE WHEN t.typtype = 'p' THEN 'text' ELSE t.oid::regtype::text END
                FROM pg_proc p JOIN pg_type t ON t.oid = p.prorettype WHERE p.proname = s.proname
                AND p.pronamespace = 'pg_catalog'::regnamespace ORDER BY p.pronargs = cardinality(arguments) DESC,
                    p.oid LIMIT 1)
                AS result
        FROM signatures s
    LOOP
        EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS %s %s', other.name,
            array_to_string(other.arguments, ', '),
            other.result, body);
    END LOOP;
END $$;
