"""A migration that carries the functions in plain SQL."""

from pathlib import Path

from alembic.migration import MigrationContext
from alembic.operations import Operations
from report import report
import sqlalchemy as sa

engine = sa.create_engine("postgresql+psycopg://")
with engine.begin() as connection:
    op = Operations(MigrationContext.configure(connection))
    # recipe
    op.execute(Path("db/snowflake.sql").read_text())
    # end
    connection.execute(sa.text("SELECT ids.snowflake_set_worker_id(7)"))
    op.create_table(
        "orders",
        sa.Column("id", sa.BigInteger, primary_key=True, server_default=sa.text("ids.snowflake_nextval()")),
        sa.Column("n", sa.Integer, nullable=False),
    )
    rows = connection.execute(sa.text("INSERT INTO orders (n) SELECT generate_series(0, 499) RETURNING n, id")).all()
report({n: id for n, id in rows})
