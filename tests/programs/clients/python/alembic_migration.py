"""A migration, and whether autogenerate would change what it has made."""

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from report import report
import sqlalchemy as sa

engine = sa.create_engine("postgresql+psycopg://")
with engine.begin() as connection:
    context = MigrationContext.configure(connection, opts={"compare_server_default": True, "compare_type": True})
    op = Operations(context)
    # recipe
    op.create_table(
        "orders",
        sa.Column("id", sa.BigInteger, primary_key=True, server_default=sa.text("snowflake_nextval()")),
        sa.Column("n", sa.Integer, nullable=False),
    )
    # end
    metadata = sa.MetaData()
    orders = sa.Table(
        "orders",
        metadata,
        sa.Column("id", sa.BigInteger, primary_key=True, server_default=sa.func.snowflake_nextval()),
        sa.Column("n", sa.Integer, nullable=False),
    )
    assert compare_metadata(context, metadata) == [], compare_metadata(context, metadata)
    rows = connection.execute(
        sa.insert(orders).returning(orders.c.n, orders.c.id), [{"n": n} for n in range(500)]
    ).all()
report({n: id for n, id in rows})
