from report import report
from sqlalchemy import BigInteger, create_engine, func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, server_default=func.snowflake_nextval())
    n: Mapped[int]


engine = create_engine("postgresql+psycopg2://", executemany_mode="values_plus_batch")
Base.metadata.create_all(engine)
with Session(engine, expire_on_commit=False) as session:
    # recipe
    ids = session.scalars(select(func.snowflake_nextvals(500))).all()
    orders = [Order(id=id, n=n) for n, id in enumerate(ids)]
    session.add_all(orders)
    # end
    session.commit()
report({order.n: order.id for order in orders})
