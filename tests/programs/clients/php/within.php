<?php
$host = getenv('PGHOST');
$db = new PDO("pgsql:host=$host;dbname=" . getenv('PGDATABASE'), getenv('PGUSER'));
$db->setAttribute(PDO::ATTR_ERRMODE, PDO::ERRMODE_EXCEPTION);
$hour = date(DATE_ATOM, time() - 3600);
$query = $db->prepare('SELECT n FROM orders WHERE snowflake_within(id, ?)');
$query->execute([$hour]);
echo json_encode(['since' => $query->fetchAll(PDO::FETCH_COLUMN)]), "\n";
