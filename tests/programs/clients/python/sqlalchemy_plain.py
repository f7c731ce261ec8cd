from report import report
from sqlalchemy import BigInteger, create_engine, func
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(
        BigInteger, primary_key=True, server_default=func.snowflake_nextval()
    )
    n: Mapped[int]


engine = create_engine("postgresql+psycopg://")
Base.metadata.create_all(engine)
with Session(engine, expire_on_commit=False) as session:
    orders = [Order(n=n) for n in range(500)]
    session.add_all(orders)
    session.commit()
report({order.n: order.id for order in orders})
