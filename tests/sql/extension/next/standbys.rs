//! A primary and its standby, of two versions, in every order of restarts and failovers: before and after
//! `ALTER EXTENSION`.

use super::Version::{self, Next, This};
use super::pairs::{Asked, Pair};
use super::walk::walk;
use super::{APPLICATION, restart, update};
use testbed::{Builder, Cluster, Signal, test};

/// Which libraries the two run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Libraries {
    primary: Version,
    standby: Version,
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Primary,
    Standby,
    Failover,
}

fn leads_to(here: Libraries, this: Move) -> Option<Libraries> {
    let Libraries { primary, standby } = here;
    Some(match this {
        Move::Primary => Libraries { primary: primary.other(), standby },
        Move::Standby => Libraries { primary, standby: standby.other() },
        Move::Failover => Libraries { primary: standby, standby: primary },
    })
}

struct Nodes {
    primary: Cluster,
    standby: Cluster,
    failovers: usize,
}

impl Nodes {
    fn start() -> Self {
        let node: fn() -> Builder =
            || Cluster::builder().worker(7).own_installation().checksums().set("wal_keep_size", "1GB");
        let primary = node().start();
        primary.connect().batch_execute(APPLICATION).expect("an application");
        let standby = node().standby_of(&primary);
        Self { primary, standby, failovers: 0 }
    }

    fn make(&mut self, here: Libraries, this: Move) {
        match this {
            Move::Primary => restart(&mut self.primary, here.primary.other(), Signal::INT),
            Move::Standby => restart(&mut self.standby, here.standby.other(), Signal::INT),
            Move::Failover => self.fail_over(),
        }
        self.primary.wait_until("SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')");
    }

    /// The primary is lost, and comes back as a standby: rewound, or from a new backup.
    fn fail_over(&mut self) {
        self.standby.wait_for_commits_of(&self.primary);
        self.primary.stop(Signal::QUIT);
        self.standby.promote();
        std::mem::swap(&mut self.primary, &mut self.standby);
        self.failovers += 1;
        if self.failovers.is_multiple_of(2) {
            self.standby.clone_anew(&self.primary);
        } else {
            self.standby.rewind(&self.primary);
        }
        self.standby.follow(&self.primary);
    }

    fn are_asked(&self, asked: &mut Asked, libraries: Libraries, script: Version) {
        asked.issues_or_refuses(&self.primary, Pair { library: libraries.primary, script });
        self.standby.wait_for_commits_of(&self.primary);
        asked.issues_or_refuses(&self.standby, Pair { library: libraries.standby, script });
    }
}

/// The script goes up where the standby already has the next version, or does not yet.
#[test(By("make suite NAME=next"))]
fn a_primary_and_its_standby_of_two_versions_fail_over_and_back_in_every_order_of_restarts() {
    let moves = [Move::Failover, Move::Standby, Move::Primary];
    for standby in [This, Next] {
        let (mut nodes, mut asked) = (Nodes::start(), Asked::default());
        let mut here = Libraries { primary: This, standby: This };
        nodes.are_asked(&mut asked, here, This);
        let turn = |here, script, nodes: &mut Nodes, asked: &mut Asked| {
            walk(here, &moves, leads_to, |here, this| {
                nodes.make(here, this);
                nodes.are_asked(asked, leads_to(here, this).expect("a move"), script);
            })
        };
        if standby == This {
            here = turn(here, This, &mut nodes, &mut asked);
        }
        for (this, library) in [(Move::Primary, Next), (Move::Standby, standby)] {
            let is = if matches!(this, Move::Primary) { here.primary } else { here.standby };
            if is != library {
                nodes.make(here, this);
                here = leads_to(here, this).expect("a move");
            }
            nodes.are_asked(&mut asked, here, This);
        }
        update(&nodes.primary, "snowflake_pg");
        nodes.are_asked(&mut asked, here, Next);
        turn(here, Next, &mut nodes, &mut asked);
        asked.end();
    }
}
