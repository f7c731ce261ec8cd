//! A new project of each framework, to which docs/clients.md brings Snowflake IDs.

use super::stranger::{Stranger, block, code, section};
use std::fs;
use std::time::SystemTime;
use testbed::project;

const CLIENTS: &str = "docs/clients.md";

/// The packages of PyPI or npm that make has fetched, in the words of pip or npm.
fn packages(list: &str, words: &str) -> String {
    let text = fs::read_to_string(project().join("tests/programs/first_hour").join(list)).expect("a list");
    let found: Vec<_> = text.lines().filter(|line| line.contains(words)).map(|line| format!("'{line}'")).collect();
    found.join(" ")
}

/// What the last line says that a program has printed.
fn last(printed: &str) -> &str {
    printed.lines().last().unwrap_or_default()
}

pub fn django(stranger: &Stranger) {
    let part = section(CLIENTS, "## Django");
    stranger.note("A new project of Django:");
    stranger.types("", "sudo -u postgres createuser --createdb ada\nsudo -u postgres createdb --owner ada shop");
    stranger.types("", "mkdir django\npython3 -m venv django/venv");
    stranger.types("django", &format!("venv/bin/pip install --quiet {}", packages("requirements.txt", "")));
    stranger.types("django", "venv/bin/django-admin startproject project .\nvenv/bin/python manage.py startapp shop");
    let settings = r#"INSTALLED_APPS += ["shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}}"#;
    stranger.edits("django", ">>project/settings.py", settings);

    stranger.note("docs/clients.md, Django: one model");
    stranger.types("", "sudo -u postgres psql -d shop -c 'CREATE EXTENSION snowflake_pg'");
    stranger.edits("django", ">shop/fields.py", &block(&part, "python", "class SnowflakeAutoField"));
    let key = code(&part, "SnowflakeAutoField(primary_key=True)");
    let models = format!(
        "from django.db import models

from shop.fields import SnowflakeAutoField


class Order(models.Model):
    {key}
    item = models.TextField()
"
    );
    stranger.edits("django", ">shop/models.py", &models);
    migrate_django(stranger);
    add_in_django(stranger, "Order", "tea");

    stranger.note("docs/clients.md, Django: all models of an application");
    stranger.edits("django", ">shop/apps.py", &block(&part, "python", "class ShopConfig"));
    stranger.edits("django", ">>shop/models.py", "\n\nclass Receipt(models.Model):\n    item = models.TextField()");
    migrate_django(stranger);
    add_in_django(stranger, "Receipt", "cake");
}

fn migrate_django(stranger: &Stranger) {
    stranger.types("django", "venv/bin/python manage.py makemigrations\nvenv/bin/python manage.py migrate");
    stranger.types("django", "venv/bin/python manage.py makemigrations --check");
}

/// The object has its key as soon as it is saved, and is found by it.
fn add_in_django(stranger: &Stranger, model: &str, item: &str) {
    let began = SystemTime::now();
    let script = format!(
        "venv/bin/python manage.py shell <<'END'
from shop.models import {model}
saved = {model}.objects.create(item='{item}')
print({model}.objects.get(pk=saved.pk).item)
print(saved.pk)
END"
    );
    let printed = stranger.types("django", &script);
    assert!(printed.lines().any(|line| line == item), "{printed}");
    stranger.must_have_issued(last(&printed), began);
}

pub fn drizzle(stranger: &Stranger) {
    let part = section(CLIENTS, "## Node.js");
    stranger.note("A new project with Drizzle:");
    stranger.types("", "sudo -u postgres createdb --owner ada cafe\nmkdir drizzle");
    stranger.types("", "sudo -u postgres psql -d cafe -c 'CREATE EXTENSION snowflake_pg'");
    stranger.types("drizzle", "npm init --yes >/dev/null\nnpm pkg set type=module");
    stranger.types("drizzle", &format!("npm install --silent {}", packages("npm.txt", "")));
    let config = r#"import { defineConfig } from "drizzle-kit";

export default defineConfig({
  dialect: "postgresql",
  schema: "./schema.js",
  dbCredentials: { url: "postgresql:///cafe?host=/var/run/postgresql" },
});"#;
    stranger.edits("drizzle", ">drizzle.config.js", config);

    stranger.note("docs/clients.md, Node.js: Drizzle");
    let blocks = [block(&part, "js", "customType({"), block(&part, "js", "pgTable(\"orders\"")];
    stranger.edits("drizzle", ">schema.js", &blocks.join("\n"));
    stranger.types("drizzle", "npx drizzle-kit generate");
    stranger.types("drizzle", "npx drizzle-kit migrate");
    let program = r#"import { eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import pg from "pg";
import { orders } from "./schema.js";

const client = new pg.Client({ host: "/var/run/postgresql", database: "cafe" });
await client.connect();
const db = drizzle(client);
const [row] = await db.insert(orders).values({ n: 7 }).returning();
const [found] = await db.select().from(orders).where(eq(orders.id, row.id));
console.log("found", found.n);
console.log(String(row.id));
await client.end();"#;
    stranger.edits("drizzle", ">insert.js", program);
    let began = SystemTime::now();
    let printed = stranger.types("drizzle", "node insert.js");
    assert!(printed.contains("found 7"), "{printed}");
    stranger.must_have_issued(last(&printed), began);
}

pub fn rails(stranger: &Stranger) {
    let part = section(CLIENTS, "## Rails");
    stranger.note("A new project of Rails:");
    stranger.types("", "rails new bakery --database=postgresql --minimal --skip-bundle | tail -n 1");

    stranger.note("docs/clients.md, Rails");
    stranger.types("", "sudo -u postgres psql -d template1 -c 'CREATE EXTENSION snowflake_pg'");
    stranger.types("bakery", "bin/rails db:create\nbin/rails generate model Order n:integer");
    let table: String = block(&part, "ruby", "create_table").lines().map(|line| format!("    {line}\n")).collect();
    let migration = format!("class CreateOrders < ActiveRecord::Migration[6.1]\n  def change\n{table}  end\nend");
    stranger.edits("bakery", ">$(echo db/migrate/*_create_orders.rb)", &migration);
    stranger.types("bakery", "bin/rails db:migrate");
    let began = SystemTime::now();
    let insert = block(&part, "ruby", "insert_all");
    let script = format!("cat >insert.rb <<'END'\n{insert}END\nbin/rails runner insert.rb");
    stranger.types("bakery", &script);
    let printed =
        stranger.types("bakery", "bin/rails runner 'puts Order.count, Order.find(Order.create!(n: 7).id).id'");
    assert!(printed.lines().any(|line| line == "500"), "{printed}");
    stranger.must_have_issued(last(&printed), began);
    stranger.note("Its tests, whose database is made of db/schema.rb and has fixtures:");
    let test = r#"require "test_helper"

class OrderTest < ActiveSupport::TestCase
  test "an order gets an ID" do
    assert_operator Order.create!(n: 7).id, :>, 1 << 60
    assert_equal 3, Order.count
  end
end"#;
    stranger.edits("bakery", ">test/models/order_test.rb", test);
    let said = stranger.types("bakery", "bin/rails test");
    assert!(said.contains("1 runs, 2 assertions, 0 failures, 0 errors"), "{said}");
}
