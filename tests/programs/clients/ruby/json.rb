require "active_record"
require "json"

ActiveRecord::Base.establish_connection(
  adapter: "postgresql", host: ENV["PGHOST"], username: ENV["PGUSER"], database: ENV["PGDATABASE"]
)
# recipe
class Order < ActiveRecord::Base
  def as_json(*) = super.merge("id" => id.to_s)
end
# end

puts Order.new(id: 2125412474722189368).to_json(only: :id)
