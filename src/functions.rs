//! What SQL sees. Declared, and documented for users, in `sql/extension`.

mod admin;
mod argument;
mod decode;
mod encrypt;
mod fill;
mod fleet;
mod horizon;
mod identity;
mod issued_elsewhere;
mod lastval;
mod layout;
mod lives;
mod nextval;
mod partitions;
mod place;
mod poll;
mod range;
mod row;
mod state;
mod status;
mod text;
mod time;
mod uuid;
