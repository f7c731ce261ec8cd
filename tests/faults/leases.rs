//! A registry that leases workers, and everything at once: servers are killed, frozen beyond their leases, cloned, put
//! back, cut off and booted; the registry is killed and fails over with a loss; clocks are hours apart.

use super::suite::{Evidence, Fault};
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Builder, Cluster, Load, Registry, Report, Signal, can_name_hosts};

pub const FAULTS: &[Fault] = &[Fault {
    row: 46,
    promise: "servers_that_lease_their_workers_issue_no_id_twice_whatever_happens",
    short: 5,
    full: 120,
    run: chaos,
}];

/// Few at a time: a client keeps all that it receives.
const IDS: &str = "SELECT snowflake_nextval() FROM generate_series(1, 10)";

const LEASE: Duration = Duration::from_secs(5);

/// How far the servers' clocks are from the real one, in seconds.
const CLOCKS: [f64; 3] = [0.0, 10_800.0, -10_800.0];

/// A server of the fleet, with the client that asks it all the time.
struct Member {
    cluster: Cluster,
    load: Load,
    /// A lease, a mark and a file of lives of an earlier time.
    snapshot: Option<PathBuf>,
    boots: u8,
}

struct Fleet {
    registry: Registry,
    members: Vec<Member>,
    /// What was seen of clones that have ended.
    seen: Report,
    random: u64,
    crashes: usize,
    /// By how much all clocks were set ahead, in seconds.
    later: f64,
}

fn chaos(rounds: usize) -> Evidence {
    let registry = Registry::start_as(Cluster::builder().own_clock());
    // As many workers as servers: whatever else starts waits for the worker of one of them.
    let rules = "SELECT snowflake_registry.forbid_workers(3), snowflake_registry.set_longest_lease('4 hours')";
    registry.connect().batch_execute(rules).expect("rules");
    let members = CLOCKS.map(|clock| Member::start(member(&registry), clock)).into();
    let mut fleet = Fleet { registry, members, seen: Report::default(), random: 46, crashes: 0, later: 0.0 };
    for round in 0..rounds {
        // Each of them in every ten rounds, on some server.
        fleet.let_go_wrong(round % 10);
        fleet.members.iter().for_each(|member| member.cluster.keep_trace());
        sleep(Duration::from_millis(fleet.below(1500)));
    }
    // Servers that have lost their worker get another one when they are restarted. A clock that is hours behind may be
    // below where that begins.
    for (member, _) in fleet.members.iter_mut().zip(CLOCKS).filter(|&(_, clock)| clock >= 0.0) {
        member.cluster.restart(Signal::INT);
        member.load.wait_for_ids();
    }
    let mut report = fleet.seen;
    fleet.members.into_iter().for_each(|member| report.merge(member.load.finish()));
    assert_eq!(report.duplicates(), 0, "of {} IDs", report.ids());
    Evidence::new(rounds, &report).crashes(fleet.crashes)
}

fn member(registry: &Registry) -> Builder {
    Cluster::builder()
        .worker("registry")
        .set("snowflake_pg.registry_conninfo", registry.conninfo())
        .set("snowflake_pg.layout", "t41 w2 s20")
        .set("snowflake_pg.registry_lease", format!("{}s", LEASE.as_secs()))
        .own_clock()
}

impl Member {
    fn start(builder: Builder, clock: f64) -> Self {
        let mut cluster = builder.create();
        cluster.set_clock(clock);
        cluster.start();
        cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        let load = Load::start(&cluster, 1, IDS);
        load.wait_for_ids();
        Self { cluster, load, snapshot: None, boots: 0 }
    }

    /// The files that say who the server is, with their inodes, as a snapshot of its volume has them.
    fn files(&self) -> [PathBuf; 2] {
        ["snowflake_pg/lease", "snowflake_pg.life"].map(|file| self.cluster.data().join(file))
    }

    fn take_snapshot(&mut self, name: &str) {
        let snapshot = self.cluster.make_directory(name);
        fs::copy(self.cluster.mark_file(), snapshot.join("mark")).expect("the mark");
        for file in self.files() {
            fs::hard_link(&file, snapshot.join(file.file_name().expect("a name"))).expect("the file itself");
        }
        self.snapshot = Some(snapshot);
    }

    /// Puts a stopped server back to its snapshot.
    fn put_back(&mut self) {
        let Some(snapshot) = self.snapshot.take() else { return };
        let mark = fs::read(snapshot.join("mark")).expect("the mark");
        fs::write(self.cluster.mark_file(), mark).expect("the mark");
        for file in self.files() {
            fs::rename(snapshot.join(file.file_name().expect("a name")), &file).expect("the file itself");
        }
    }

    fn send_to(&self, conninfo: &str) {
        self.cluster.configure("snowflake_pg.registry_conninfo", conninfo);
        self.cluster.reload();
    }
}

impl Fleet {
    /// The next random number below this one. The same ones in every run.
    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % end
    }

    fn let_go_wrong(&mut self, what: usize) {
        let nth = usize::try_from(self.below(3)).expect("small");
        let some_time = Duration::from_millis(500 + self.below(3000));
        let name = format!("kept{}", self.below(1 << 30));
        let member = &mut self.members[nth];
        match what {
            0 => {
                member.cluster.kill_all();
                member.cluster.start();
                self.crashes += 1;
            }
            // By the registry's clock. The worker of a server that is ahead of it is not free for hours, and a server
            // that is behind it cannot begin for hours.
            1 => self.clone(0, LEASE + some_time, true),
            2 => self.clone(nth, some_time, false),
            3 => member.take_snapshot(&name),
            4 => {
                member.send_to("host=/nowhere");
                sleep(LEASE / 2 + some_time);
                member.send_to(&self.registry.conninfo());
            }
            5 => {
                self.registry.kill_all();
                sleep(some_time);
                self.registry.start();
                self.crashes += 1;
            }
            6 => self.fail_over(),
            7 => self.members.iter_mut().zip(CLOCKS).filter(|&(_, clock)| clock <= 0.0).for_each(|(member, _)| {
                member.cluster.kill_all();
                member.put_back();
                if can_name_hosts() {
                    member.boots += 1;
                    member.cluster.boot(member.boots);
                }
                member.cluster.start();
                self.crashes += 1;
            }),
            8 => member.cluster.restart(Signal::INT),
            _ => {
                // A small step, which changes how soon IDs reach a grant.
                let step = 4.0 * f64::from(u32::try_from(nth).expect("small")) - 4.0;
                member.cluster.set_clock(CLOCKS[nth] + self.later + step);
                sleep(some_time);
                member.cluster.set_clock(CLOCKS[nth] + self.later);
            }
        }
    }

    /// Starts a copy of a running server beside it for a while. If the original is frozen, the copy may get its worker.
    fn clone(&mut self, nth: usize, time: Duration, freezes: bool) {
        let original = &self.members[nth].cluster;
        let mut copy = Cluster::builder().own_clock().backup_of(original);
        let frozen = freezes.then(|| original.freeze());
        copy.set_clock(CLOCKS[nth] + self.later);
        copy.start();
        let load = Load::start(&copy, 1, IDS);
        sleep(time);
        drop(frozen);
        sleep(Duration::from_secs(2));
        self.seen.merge(load.finish());
        copy.kill_all();
        self.crashes += 1;
    }

    /// Promotes a standby that lacks what the registry has done last, and sends all servers there. Then hours pass, in
    /// which it gives no worker to another server.
    fn fail_over(&mut self) {
        let standby = Cluster::builder().own_clock().standby_of(&self.registry);
        standby.set_clock(self.later);
        standby.configure("primary_conninfo", "host=/nowhere");
        standby.reload();
        // Time for renewals that will be lost.
        sleep(LEASE / 2);
        self.registry.kill_all();
        self.crashes += 1;
        standby.promote();
        self.registry = Registry::on(standby);
        self.members.iter().for_each(|member| member.send_to(&self.registry.conninfo()));
        sleep(LEASE);
        // Else hours pass first, and it keeps workers back for hours more.
        self.registry
            .wait_until("SELECT timeline = snowflake_registry.own_timeline() FROM snowflake_registry.registry");
        self.later += 14_520.0;
        self.registry.set_clock(self.later);
        for (member, clock) in self.members.iter().zip(CLOCKS) {
            member.cluster.set_clock(clock + self.later);
            member.cluster.connect().batch_execute("SELECT snowflake_accept_clock()").expect("the clock");
        }
    }
}
