# What a project of Rails has if it is older than Rails 5.1.
class CreateOrders < ActiveRecord::Migration[6.1]
  def change
    create_table(:tags) { |t| t.string :name }
    create_table(:orders, id: :integer) { |t| t.string :note }
    create_table :items do |t|
      t.references :order, type: :integer, null: false, foreign_key: true
      t.references :tag
    end
  end
end
