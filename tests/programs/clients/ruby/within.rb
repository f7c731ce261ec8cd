require "active_record"
require "active_support/core_ext/integer/time"
require "json"

ActiveRecord::Base.establish_connection(
  adapter: "postgresql", host: ENV["PGHOST"], username: ENV["PGUSER"], database: ENV["PGDATABASE"]
)
class Order < ActiveRecord::Base
end

since =
  # recipe
  Order.where("snowflake_within(id, ?)", 1.hour.ago)
  # end
up_to = Order.where("snowflake_within(id, ?, ?)", 3.hours.ago, 1.hour.ago)
puts JSON.generate(since: since.pluck(:n), until: up_to.pluck(:n))
