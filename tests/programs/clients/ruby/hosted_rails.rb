# A migration that carries the functions in plain SQL.

require "active_record"
require "json"

ActiveRecord::Base.establish_connection(
  adapter: "postgresql", host: ENV["PGHOST"], username: ENV["PGUSER"], database: ENV["PGDATABASE"]
)
ActiveRecord::Migration.verbose = false

class AddSnowflake < ActiveRecord::Migration[6.1]
  def up
    # recipe
    execute File.read("db/snowflake.sql")
    # end
  end
end

class CreateOrders < ActiveRecord::Migration[6.1]
  def change
    create_table :orders, id: false do |t|
      t.bigint :id, primary_key: true, default: -> { "ids.snowflake_id()" }
      t.integer :n
    end
  end
end

class Order < ActiveRecord::Base
end

ActiveRecord::Base.transaction { AddSnowflake.new.migrate(:up) }
ActiveRecord::Base.connection.select_value("SELECT ids.snowflake_set_worker_id(7)")
CreateOrders.new.migrate(:up)
rows = Order.insert_all((0...500).map { |n| { n: n } }, returning: %i[n id]).rows
puts JSON.generate(type: rows.map { |_, id| id.class.name }.uniq.join(", "), keys: rows.to_h { |n, id| [n, id.to_s] })
