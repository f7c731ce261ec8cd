require "active_record"
require "json"

ActiveRecord::Base.establish_connection(
  adapter: "postgresql", host: ENV["PGHOST"], username: ENV["PGUSER"], database: ENV["PGDATABASE"]
)
# recipe
ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  create_table :orders, id: false do |t|
    t.bigint :id, primary_key: true, default: -> { "snowflake_id()" }
    t.integer :n
  end
end

class Order < ActiveRecord::Base
end

rows = Order.insert_all((0...500).map { |n| { n: n } }, returning: %i[n id]).rows
# end
one = Order.create!(n: 500)
raise "no key" unless Order.find(one.id).n == 500
one.destroy
puts JSON.generate(type: rows.map { |_, id| id.class.name }.uniq.join(", "), keys: rows.to_h { |n, id| [n, id.to_s] })
