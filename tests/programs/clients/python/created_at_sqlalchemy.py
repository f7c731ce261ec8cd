import json
from datetime import datetime, timedelta, timezone

from sqlalchemy import BigInteger, Computed, DateTime, create_engine, select, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, server_default=text("snowflake_nextval()"))
    n: Mapped[int]
    # recipe
    created_at: Mapped[datetime] = mapped_column(
        DateTime(True),
        Computed("to_timestamp(((id >> 22) + 1288834974657)::double precision / 1000::double precision)", persisted=False),
    )
    # end


hour = datetime.now(timezone.utc) - timedelta(hours=1)
with Session(create_engine("postgresql+psycopg://")) as session:
    since = select(Order).where(Order.created_at >= hour).order_by(Order.created_at.desc())
    found = {
        "since": [order.n for order in session.scalars(since)][::-1],
        "until": [order.n for order in session.scalars(select(Order).where(Order.created_at < hour))],
    }
    session.execute(text("SET enable_seqscan = off"))
    session.execute(text("SET enable_bitmapscan = off"))
    query = since.limit(5).compile(dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True})
    plans = ["\n".join(session.scalars(text(f"EXPLAIN {query}")))]
    session.add(Order(n=4))
    session.commit()
    assert session.scalars(select(Order).order_by(Order.created_at.desc())).first().n == 4
print(json.dumps({"found": found, "plans": plans}))
