//! IDs for a given place, where the ID decides in which hash partition, in which shard of Citus or behind which router
//! its row is. And the other direction: in which place the row of an ID is.

mod citus;
mod field;
mod target;

use super::argument::text;
use super::layout::layout_named;
use super::nextval::refuse;
use crate::errors::IssueError;
use crate::issue::{issuer, last_id};
use crate::postgres::report::{error_report, raise};
use crate::postgres::server_encoding::quoted;
use field::Field;
use pgrx::Internal;
use pgrx::prelude::*;
use snowflake_core::id::layout::{FieldKind, Layout};
use snowflake_core::id::shard::citus_hash;
use std::cell::Cell;
use target::{Hasher, Target, display_name, target};

/// How many tags are tried for a position.
const TAGS: u64 = 1 << 16;

/// How many positions or tags are tried where another place costs locality only.
const LOOKS: u32 = 1 << 16;

/// The next ID that falls into a partition, or into a shard on this node of Citus.
#[pg_extern(sql = false)]
fn snowflake_nextval_for(table: pg_sys::Oid) -> i64 {
    match &*target(table) {
        &Target::Partition { hasher, modulus, remainder } => in_remainder(hasher, modulus, remainder, None),
        Target::Partitioned { .. } => raise(
            error_report(
                PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
                format!("{} is not a partition, so each ID falls into it", display_name(table)),
            )
            .set_hint("Name a partition, or pass the ID of a row in the same place."),
        ),
        Target::Distributed(shards) if shards.are_here() => preferably(None, |id| shards.is_here(id)),
        Target::Distributed(_) => super::nextval::next(),
    }
}

/// As COPY calls it.
#[pg_extern(sql = false)]
fn snowflake_nextval_for_in_copy(_not_from_sql: Internal, table: pg_sys::Oid) -> i64 {
    snowflake_nextval_for(table)
}

/// The next ID that falls where the row with another ID is.
#[pg_extern(sql = false)]
fn snowflake_nextval_near(table: pg_sys::Oid, near: i64) -> i64 {
    match &*target(table) {
        &Target::Partition { hasher, modulus, remainder } => {
            // mutant: place-near-elsewhere
            if hasher.hash(near) % modulus != remainder {
                raise(
                    error_report(
                        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
                        format!("the row with this ID is not in {}", display_name(table)),
                    )
                    .set_detail(format!("The ID is {near}."))
                    .set_hint("Name the table that is partitioned."),
                );
            }
            in_remainder(hasher, modulus, remainder, Some(near))
        }
        &Target::Partitioned { hasher, modulus } => {
            in_remainder(hasher, modulus, hasher.hash(near) % modulus, Some(near))
        }
        Target::Distributed(shards) => match shards.hashes_of(near) {
            Some(hashes) => preferably(Some(near), |id| hashes.contains(&citus_hash(id))),
            None => super::nextval::next(),
        },
    }
}

/// The next ID of one of so many shards, by the hash by which PostgreSQL partitions, and PgDog distributes.
#[pg_extern(sql = false)]
fn snowflake_nextval_for_shard(shards: i32, shard: i32) -> i64 {
    let shards = positive(shards);
    match u64::try_from(shard) {
        Ok(shard) if shard < shards => in_remainder(Hasher::Postgres, shards, shard, None),
        _ => raise(
            error_report(
                PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("shard must be between 0 and {}", shards - 1),
            )
            .set_detail(format!("The value is {shard}.")),
        ),
    }
}

/// As COPY calls it.
#[pg_extern(sql = false)]
fn snowflake_nextval_for_shard_in_copy(_not_from_sql: Internal, shards: i32, shard: i32) -> i64 {
    snowflake_nextval_for_shard(shards, shard)
}

/// Into which of so many shards an ID falls, by the hash by which PostgreSQL partitions, and PgDog distributes.
#[pg_extern(sql = false)]
fn snowflake_shard_of(id: i64, shards: i32) -> i32 {
    let shards = positive(shards);
    i32::try_from(Hasher::Postgres.hash(id) % shards).expect("less than the number of shards")
}

fn positive(shards: i32) -> u64 {
    u64::try_from(shards).ok().filter(|&shards| shards > 0).unwrap_or_else(|| {
        raise(
            error_report(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, "shards must be greater than 0")
                .set_detail(format!("The value is {shards}.")),
        )
    })
}

fn in_remainder(hasher: Hasher, modulus: u64, remainder: u64, near: Option<i64>) -> i64 {
    if let Hasher::Field(field) = hasher {
        must_have(field, modulus, remainder);
    }
    placed(near, |id| hasher.hash(id) % modulus == remainder)
}

/// An ERROR if this server's IDs all have another remainder.
fn must_have(field: Field, modulus: u64, remainder: u64) {
    if field.mask() & !layout().server_mask() != 0 {
        return;
    }
    let number = field.of(issuer::id_of_server().unwrap_or_else(|error| refuse(error)));
    // mutant: place-worker-known
    if number % modulus != remainder {
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "no ID of this server falls into this partition",
            )
            .set_detail(format!("Its IDs have the worker {number}, and {number} % {modulus} is not {remainder}."))
            .set_hint("Insert the row on a server whose worker has this remainder."),
        );
    }
}

fn layout() -> Layout {
    issuer::layout().unwrap_or_else(|error| refuse(error))
}

/// The next ID that falls into a place.
fn placed(near: Option<i64>, falls: impl Fn(i64) -> bool) -> i64 {
    let id = take_placed(near, falls).unwrap_or_else(|error| match error {
        // Not counted: how many shards there are says nothing about the server.
        IssueError::NothingFits(_) => error.raise(),
        _ => refuse(error),
    });
    last_id::set(id);
    id
}

/// The same where another place costs locality only: any ID if none that comes soon falls into it.
fn preferably(near: Option<i64>, falls: impl Fn(i64) -> bool) -> i64 {
    let looks = Cell::new(0);
    placed(near, |id| looks.replace(looks.get() + 1) >= LOOKS || falls(id))
}

/// With another tag, if the layout has tags; else one of the next positions. The tags begin with that of `near`.
fn take_placed(near: Option<i64>, falls: impl Fn(i64) -> bool) -> Result<i64, IssueError> {
    let layout = layout();
    let most = *layout.tags().end();
    // mutant: place-tag-chosen
    if most == 0 {
        issuer::take_placed(|id| falls(id).then_some(id))
    } else {
        let tag_of = |id: i64| layout.unpack(id.cast_unsigned()).tag.unwrap_or(0);
        issuer::take_placed(|id| {
            let first = near.map_or_else(|| layout.unpack(id.cast_unsigned()).sequence.unwrap_or(0), tag_of);
            (0..TAGS.min(most + 1)).find_map(|n| {
                let tag = first.wrapping_add(n) % (most + 1);
                let tagged = id | layout.tag_bits(tag.cast_signed()).ok()?.cast_signed();
                falls(tagged).then_some(tagged)
            })
        })
    }
}

/// The name of the first argument of a hash function of this field, in the IDs of a layout.
#[pg_extern(sql = false)]
fn snowflake_bits_of(field: &[u8], layout: &[u8]) -> String {
    let layout = layout_named(layout);
    // Not the timestamp: a range of time is a range of IDs, which PARTITION BY RANGE has.
    let kind = match field {
        b"datacenter" => Some(FieldKind::Datacenter),
        b"worker" => Some(FieldKind::Worker),
        b"tag" => Some(FieldKind::Tag),
        b"sequence" => Some(FieldKind::Sequence),
        _ => None,
    };
    let Some((low, high)) = kind.and_then(|kind| layout.bits_of(kind)) else {
        let field = quoted(&text("field", field));
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("the layout has no such field: {field}"),
            )
            .set_detail(format!("The layout is {layout}."))
            .set_hint("Fields are datacenter, worker, tag and sequence."),
        );
    };
    Field::new(low, high).expect("bits of an ID").argument()
}
