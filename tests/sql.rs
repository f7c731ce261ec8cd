//! What every function, type and plan does, most of it on servers that tests share: `make check` runs these.

mod arguments;
mod extension;
mod layouts;
mod place;
mod planner;
mod serial;
mod snowflake_type;
mod sql_surface;
mod tags;
mod text;
mod time_ranges;
