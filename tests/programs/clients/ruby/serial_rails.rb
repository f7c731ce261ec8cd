# Migrations, models and fixtures that know nothing of Snowflake IDs, and what Rails dumps of the schema.

require "active_record"
require "active_record/fixtures"
require "json"
require "stringio"
require "tmpdir"

ActiveRecord::Base.establish_connection(
  adapter: "postgresql", host: ENV["PGHOST"], username: ENV["PGUSER"], database: ENV["PGDATABASE"]
)
ActiveRecord::Migration.verbose = false

class CreateArticles < ActiveRecord::Migration[6.1]
  def change
    create_table :articles do |t|
      t.string :title
      t.timestamps
    end
    create_table :comments do |t|
      t.references :article, null: false, foreign_key: true
      t.integer :n
    end
    create_join_table :articles, :tags
    create_table(:tags, id: :serial) { |t| t.string :name }
  end
end

class Article < ActiveRecord::Base
  has_many :comments
end

class Comment < ActiveRecord::Base
  belongs_to :article
end

CreateArticles.new.migrate(:up)
article = Article.create!(title: "Hello")
rows = article.comments.insert_all((0...500).map { |n| { n: n } }, returning: %i[n id]).rows
raise "not found" unless Article.find(article.id).comments.where("n < 3").count == 3

# Fixtures have keys of their own, and Rails sets the sequences afterwards.
Dir.mktmpdir do |directory|
  File.write("#{directory}/tags.yml", "news:\n  name: news\n")
  ActiveRecord::FixtureSet.create_fixtures(directory, "tags")
end
raise "no fixtures" unless ActiveRecord::Base.connection.select_value("SELECT name FROM tags") == "news"

def dumped
  StringIO.new.tap { |out| ActiveRecord::SchemaDumper.dump(ActiveRecord::Base.connection, out) }.string
end

# db/schema.rb, as another machine loads it.
schema = dumped
ActiveRecord::Base.transaction do
  ActiveRecord::Base.connection.tables.each { |table| ActiveRecord::Base.connection.drop_table(table, force: :cascade) }
  ActiveRecord::Schema.verbose = false
  eval(schema)
  raise "another schema:\n#{dumped}" unless dumped == schema
  raise ActiveRecord::Rollback
end

drift = schema.lines.grep(/create_table/).grep(/snowflake/).map(&:strip).join("\n")
puts JSON.generate(
  type: rows.map { |_, id| id.class.name }.uniq.join(", "), keys: rows.to_h { |n, id| [n, id.to_s] }, drift: drift
)
