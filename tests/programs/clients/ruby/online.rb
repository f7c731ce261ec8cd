# A project of Rails whose orders are adopted while processes of the application use them: `migrate` to a version, or `serve`,
# which prints after each round of work what has failed. Beside `old` models, there are those of the document.

require "active_record"
require "json"
require "stringio"

what, version = ARGV
if version == "ready"
  # recipe
  ActiveSupport.on_load(:active_record) do
    require "active_record/connection_adapters/postgresql_adapter"
    ActiveRecord::ConnectionAdapters::PostgreSQLAdapter.prepend(Module.new do
      def initialize_type_map(map = type_map)
        super
        map.register_type "int4", ActiveModel::Type::Integer.new(limit: 8)
      end
    end)
  end
  # end
end

ActiveRecord::Base.establish_connection(
  adapter: "postgresql", host: ENV["PGHOST"], username: ENV["PGUSER"], database: ENV["PGDATABASE"],
  prepared_statements: version != "ready"
)

if what == "migrate"
  ActiveRecord::Migration.verbose = false
  ActiveRecord::MigrationContext.new("#{__dir__}/migrate", ActiveRecord::SchemaMigration).migrate(version.to_i)
  dumped = StringIO.new.tap { |out| ActiveRecord::SchemaDumper.dump(ActiveRecord::Base.connection, out) }
  puts JSON.generate(dumped.string)
  exit
end

# As in new projects since Rails 7.0: an INSERT names all columns that a process knows.
ActiveRecord::Base.partial_writes = false

class Tag < ActiveRecord::Base
end

class Order < ActiveRecord::Base
  has_many :items
  has_many :tags, through: :items
end

class Item < ActiveRecord::Base
  belongs_to :order
  belongs_to :tag, optional: true
end

if version == "ready"
  # recipe
  class Order < ActiveRecord::Base
    self.ignored_columns += ["snowflake_adopt_id"]
  end

  class Item < ActiveRecord::Base
    self.ignored_columns += ["snowflake_adopt_order_id"]
  end
  # end
end

# Each part of the work fails by itself.
def work(round)
  failures = []
  try = lambda do |&part|
    part.call or raise "line #{part.source_location[1]} has found something else"
  rescue StandardError => error
    failures << "#{error.class}: #{error.message}"
    nil
  end
  old = round % 500 + 1
  order = try.() { Order.create!(note: "new") }
  try.() do
    Order.transaction do
      inner = Order.create!(note: "new")
      inner.items.create!
      Order.find(inner.id).items.count == 1
    end
  end
  try.() { Order.find(old).update!(note: "round #{round}") && Order.find(old).note == "round #{round}" }
  try.() { Order.upsert_all([{ id: old, note: "upserted" }]) }
  return failures unless order
  try.() { order.items.create!(tag: Tag.first) && Order.find(order.id).tags.to_a == [Tag.first] }
  try.() { Order.joins(:items).find_by(id: order.id) == order }
  try.() { Item.where(order_id: [order.id, old]).includes(:order).to_a.map(&:order).include?(order) }
  try.() { Item.find_by!(order_id: old).update!(order_id: order.id) && Item.where(order: order).update_all(order_id: old) }
  try.() { order.reload.update!(note: "updated") && order.destroy && !Order.exists?(order.id) }
  failures
end

(0..).each do |round|
  puts JSON.generate(work(round))
  $stdout.flush
  sleep 0.02
end
