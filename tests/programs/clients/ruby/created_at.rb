# A model with a `created_at` that the server computes.

require "active_record"
require "active_support/core_ext/integer/time"
require "json"

ActiveRecord::Base.establish_connection(
  adapter: "postgresql", host: ENV["PGHOST"], username: ENV["PGUSER"], database: ENV["PGDATABASE"]
)

# recipe
class Order < ActiveRecord::Base
  def self.timestamp_attributes_for_create = super - ["created_at"]
  private_class_method :timestamp_attributes_for_create
end
# end

found = {
  since: Order.where(created_at: 1.hour.ago..).order(created_at: :desc).limit(10).pluck(:n).reverse,
  until: Order.where(created_at: 1.day.ago...1.hour.ago).pluck(:n)
}
order = Order.create!(n: 4)
order.reload
Order.implicit_order_column = "created_at"
page = Order.order(created_at: :desc, id: :desc).offset(1).limit(1)
puts JSON.generate(
  found.merge(created: (order.created_at.to_r * 1000).to_i, latest: Order.last.n, page: page.pluck(:n))
)
