import json
from datetime import datetime, timedelta, timezone

from sqlalchemy import BigInteger, DateTime, cast, create_engine, func, select
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    n: Mapped[int]


now = datetime.now(timezone.utc)
hour = now - timedelta(hours=1)
with Session(create_engine("postgresql+psycopg://")) as session:
    def numbers(query):
        return [order.n for order in session.scalars(query)]

    found = {
        "since": numbers(
            # recipe
            select(Order).where(func.snowflake_within(Order.id, hour))
            # end
        ),
        "until": numbers(select(Order).where(func.snowflake_within(Order.id, now - timedelta(hours=3), hour))),
        "since, a text": numbers(
            select(Order).where(func.snowflake_within(Order.id, cast(hour.isoformat(), DateTime(True)))),
        ),
    }
    try:
        numbers(select(Order).where(func.snowflake_within(Order.id, hour.isoformat())))
        raise AssertionError("a text needs no cast")
    except ProgrammingError as error:
        assert "snowflake_within(bigint, character varying) does not exist" in str(error), error
print(json.dumps(found))
