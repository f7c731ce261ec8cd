import json
from datetime import datetime, timedelta, timezone

from sqlalchemy import BigInteger, Computed, DateTime, create_engine, select, text
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


hour, day = (datetime.now(timezone.utc) - timedelta(hours=hours) for hours in (1, 24))
latest_first = select(Order).order_by(Order.created_at.desc())
with Session(create_engine("postgresql+psycopg://")) as session:
    since = session.scalars(latest_first.where(Order.created_at >= hour).limit(10))
    until = session.scalars(select(Order).where(Order.created_at >= day, Order.created_at < hour))
    found = {"since": [order.n for order in since][::-1], "until": [order.n for order in until]}
    order = Order(n=4)
    session.add(order)
    session.commit()
    created = round(order.created_at.timestamp() * 1000)
    latest = session.scalars(latest_first.limit(1)).one().n
    page = [order.n for order in session.scalars(latest_first.order_by(Order.id.desc()).offset(1).limit(1))]
print(json.dumps(found | {"created": created, "latest": latest, "page": page}))
