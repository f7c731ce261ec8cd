"""Models that know nothing of Snowflake IDs, and what Alembic would migrate."""

import sys

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from report import report
from sqlalchemy import BigInteger, ForeignKey, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

# As Mapped[int] alone, or with keys of 64 bits.
KEY = {"integer": None, "bigint": BigInteger}[sys.argv[1]]


class Base(DeclarativeBase):
    pass


class User(Base):
    __tablename__ = "users"
    id: Mapped[int] = mapped_column(KEY, primary_key=True)
    name: Mapped[str]
    orders: Mapped[list["Order"]] = relationship(back_populates="user")


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(KEY, primary_key=True)
    n: Mapped[int]
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    user: Mapped[User] = relationship(back_populates="orders")


engine = create_engine("postgresql+psycopg://")
Base.metadata.create_all(engine)
with Session(engine, expire_on_commit=False) as session:
    user = User(name="Ada", orders=[Order(n=n) for n in range(500)])
    session.add(user)
    session.commit()
    assert session.get_one(User, user.id) is user
    assert len(session.scalars(select(Order).where(Order.user_id == user.id)).all()) == 500
with engine.begin() as connection:
    context = MigrationContext.configure(connection, opts={"compare_server_default": True, "compare_type": True})
    drift = compare_metadata(context, Base.metadata)
report({order.n: order.id for order in user.orders}, repr(drift) if drift else "")
