require "active_record"
require "active_record/fixtures"
require "json"
require "tmpdir"

ActiveRecord::Base.establish_connection(
  adapter: "postgresql", host: ENV["PGHOST"], username: ENV["PGUSER"], database: ENV["PGDATABASE"]
)
ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  # recipe
  create_table :orders, id: false do |t|
    t.bigint :id, primary_key: true, default: -> { "snowflake_id()" }
    t.integer :n
  end
  # end
end

class Order < ActiveRecord::Base
end

# recipe
rows = Order.insert_all((0...500).map { |n| { n: n } }, returning: %i[n id]).rows
# end
one = Order.create!(n: 500)
raise "no key" unless Order.find(one.id).n == 500
one.destroy

# After it has loaded fixtures, Rails resets the sequence that it takes from the default.
def load_fixtures(table, default)
  ActiveRecord::Schema.define do
    create_table(table, id: false) do |t|
      t.bigint :id, primary_key: true, default: -> { default }
      t.string :name
    end
  end
  Dir.mktmpdir do |directory|
    File.write("#{directory}/#{table}.yml", "ada:\n  id: 1\n  name: Ada\n")
    ActiveRecord::FixtureSet.create_fixtures(directory, table)
  end
  ActiveRecord::Base.connection.select_value("SELECT name FROM #{table}") == "Ada"
end

raise "no fixtures" unless load_fixtures("customers", "snowflake_id()")
begin
  load_fixtures("suppliers", "snowflake_nextval()")
  raise "Rails knows that snowflake_nextval has no sequence"
rescue ActiveRecord::StatementInvalid => error
  raise unless error.message.include?('relation "public" does not exist')
end
puts JSON.generate(type: rows.map { |_, id| id.class.name }.uniq.join(", "), keys: rows.to_h { |n, id| [n, id.to_s] })
