<?php
$host = getenv('PGHOST');
$db = new PDO("pgsql:host=$host;dbname=" . getenv('PGDATABASE'), getenv('PGUSER'));
$db->setAttribute(PDO::ATTR_ERRMODE, PDO::ERRMODE_EXCEPTION);
$db->exec('CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer)');
$numbers = range(0, 499);
// recipe
$insert = $db->prepare('INSERT INTO orders (n) SELECT unnest(?::integer[]) RETURNING n, id');
$insert->execute(['{' . implode(',', $numbers) . '}']);
$keys = $insert->fetchAll(PDO::FETCH_KEY_PAIR);
// end
$kinds = array_unique(array_map('gettype', array_values($keys)));
echo json_encode(['type' => implode(', ', $kinds), 'keys' => array_map('strval', $keys)], JSON_FORCE_OBJECT), "\n";
