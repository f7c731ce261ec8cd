"""A migration that carries the functions in plain SQL."""

import os

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
django.setup()
from pathlib import Path

from django.db import connection, migrations
from django.db.migrations.state import ProjectState
from report import report

# recipe
operation = migrations.RunSQL(Path("db/snowflake.sql").read_text())
# end
with connection.schema_editor() as editor:
    operation.database_forwards("shop", editor, ProjectState(), ProjectState())
with connection.cursor() as cursor:
    cursor.execute("SELECT ids.snowflake_set_worker_id(7)")
    cursor.execute("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval(), n integer)")
    cursor.execute("INSERT INTO orders (n) SELECT generate_series(0, 499) RETURNING n, id")
    report(dict(cursor.fetchall()))
