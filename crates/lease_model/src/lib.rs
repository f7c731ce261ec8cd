//! The lease of a worker, as a model that a model checker explores.
//!
//! A registry grants a worker to a server for IDs with timestamps below a time, the *grant*. Whoever gets the worker
//! next begins there, or later. So two servers that both believe to have a worker never issue the same ID. Clocks only
//! decide when a worker is free: a server here issues any timestamp at any time, and asks for any end of its grant.
//!
//! - **I1**: every timestamp issued is below the server's durable mark, which was flushed before.
//! - **I2**: after every start, the first timestamp is at or above the mark that was read.
//! - **I3**: every timestamp issued is below a grant that the registry had committed before, and every later holder of
//!   that worker begins at or above it.
//!
//! # The protocol
//!
//! A server keeps two files. The *mark file* has its durable mark, and of which worker. The *lease file* has the
//! worker, where the lease began, the grant, the two newest tokens, and a receipt for the newest. It knows its inode,
//! and in which boot of which machine it was written.
//!
//! **Start.** A lease file that is the server's own, of this boot, and beside a mark of its worker, says which worker
//! the server has. The server renews that lease, and continues at its mark, but not below where the lease began. If the
//! registry is away, it continues with the grant in the file, and renews later. If the registry refuses, or there is no
//! such file, the server claims a worker.
//!
//! **Claim.** The registry gives a worker that is free: its grant has ended by the registry's clock, or was lowered by
//! a release. A server can get its own worker a little earlier. The answer says where the server's IDs begin: at the
//! former grant. The server writes the lease file, and begins there or at its own mark of that worker, whichever is
//! later.
//!
//! **Renewal.** The server presents its tokens, the grant that it holds, its receipt, and a new token. The registry
//! replaces the token of the row and extends the grant if one of the tokens is the row's, and the grant held reaches to
//! where the row's holder began. The server writes the lease file, and then raises its limit. If the answer is lost, it
//! asks again with the same new token, which is in its lease file by then. If the registry refuses, the server issues
//! IDs to the end of the grant that it has, and then none.
//!
//! **Planned stop.** The server lowers its limit to its durable mark. It writes a lease file with that grant and a new
//! token, the old one beside it. Then it sends the release, and ends, whatever happens to the release. A server whose
//! last exchange has failed sends none: that is a crash.
//!
//! **Restore.** A registry that comes back in an earlier state has lost leases. It gives no worker to another server
//! until every grant from before has ended. A server that renews must hold a grant beyond the restore, by a margin,
//! since only the last holder of a worker does; or a receipt that it has got since the restore. If the row was not
//! written since the restore, a receipt takes the place of the token.
//!
//! # The model
//!
//! - [`state`]: who knows what. Times and tokens are small numbers.
//! - [`step`]: what can happen. Servers crash, machines boot, disks are copied and put back. Answers are lost, and
//!   requests arrive late, twice or after a restore. The registry is away, or comes back in an earlier state.
//! - [`registry`], [`server`]: what the two do.
//! - [`rules`]: each rule of the protocol can be switched off, to see what goes wrong without it.
//! - [`world`]: how much there is of everything; [`world::Beyond`] is what no rule helps against.
//! - [`promises`]: what must hold in every state, and what must be seen in some.
//! - [`forget`], [`tokens`]: make one state of many, so that all can be explored; [`model_explorer`] does it.
//! - [`story`]: tells a sequence of steps in sentences.
//!
//! A server issues everything below its mark as soon as it extends the mark. Whoever issues less has less to repeat,
//! so nothing is missed. A request that is lost is one that was not sent. An answer that comes late is one that the
//! server makes use of late.

#![forbid(unsafe_code)]

pub mod forget;
pub mod model;
pub mod promises;
pub mod registry;
pub mod rules;
pub mod server;
pub mod state;
pub mod step;
pub mod story;
pub mod tokens;
pub mod world;
