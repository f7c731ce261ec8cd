# recipe
class AdoptOrders < ActiveRecord::Migration[6.1]
  disable_ddl_transaction!

  def up
    execute "CALL snowflake_adopt.start('orders')"
    execute "CALL snowflake_adopt.finish('orders')"
    change_column_default :orders, :id, -> { "snowflake_id()" }
  end
end
# end
