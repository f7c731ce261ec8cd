//! Names of hosts in connection strings to a registry and to a fleet.

use super::fixture::{member, worker_of};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::spawn;
use testbed::{Cluster, PATIENCE, Registry, Signal, error, need_hosts, test};

/// A resolver that never answers.
struct Resolver(UdpSocket);

impl Resolver {
    fn start() -> Self {
        // Another run can have one of them.
        let socket = (1..255).find_map(|last| UdpSocket::bind(format!("127.0.99.{last}:53")).ok());
        Self(socket.expect("a port"))
    }

    fn address(&self) -> String {
        self.0.local_addr().expect("an address").ip().to_string()
    }

    /// The first labels of the names that it was asked for since the last call.
    fn questions(&self) -> Vec<String> {
        const HEADER: usize = 12;
        self.0.set_nonblocking(true).expect("a socket");
        let receive = || {
            let mut packet = [0; 512];
            match self.0.recv(&mut packet) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                received => received.map(|_| packet).map(Some).expect("a question"),
            }
        };
        let packets = std::iter::from_fn(receive);
        let label = |packet: [u8; 512]| packet[HEADER + 1..][..packet[HEADER].into()].to_vec();
        packets.map(|packet| String::from_utf8(label(packet)).expect("a name")).collect()
    }

    /// Waits until it is asked.
    fn wait_for_question(&self) {
        self.0.set_nonblocking(false).expect("a socket");
        self.0.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let interrupted =
            |received: &io::Result<usize>| matches!(received, Err(error) if error.kind() == ErrorKind::Interrupted);
        let received = std::iter::repeat_with(|| self.0.recv(&mut [0; 512])).find(|received| !interrupted(received));
        received.expect("an answer").expect("a question");
    }
}

/// A port of this address that leads to the registry, for as long as the test runs.
fn port_of(registry: &Registry, address: Ipv4Addr) -> u16 {
    let listener = TcpListener::bind((address, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let socket = registry.host().join(".s.PGSQL.5432");
    spawn(move || listener.incoming().flatten().for_each(|client| relay(client, socket.clone())));
    port
}

fn relay(client: TcpStream, socket: PathBuf) {
    spawn(move || {
        let server = UnixStream::connect(socket)?;
        let (mut questions, mut answers) = (client.try_clone()?, server.try_clone()?);
        spawn(move || {
            let _ = io::copy(&mut questions, &mut &server);
            server.shutdown(Shutdown::Both)
        });
        io::copy(&mut answers, &mut &client)?;
        client.shutdown(Shutdown::Both)
    });
}

/// The look-up is libpq's, and only the resolver's own limits bound it.
#[test]
fn a_server_stops_and_other_hosts_are_tried_once_a_silent_resolver_of_names_is_given_up() {
    need_hosts();
    let (resolver, registry) = (Resolver::start(), Registry::start());
    let conninfo = "host=registry.example.com user=fleet dbname=postgres";
    let mut server = member(&registry).set("snowflake_pg.registry_conninfo", conninfo).create();
    server.resolve_names_at(&resolver.address());
    server.start();
    server.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    assert_eq!(error(&mut server.connect(), "SELECT snowflake_nextval()").code().code(), "53400");
    server.wait_until(
        "SELECT registry_error LIKE 'Could not translate host name \"registry.example.com\" to address: %'
         FROM snowflake_status",
    );
    // The registry client asks again, and is in the middle of that.
    resolver.questions();
    server.reload();
    resolver.wait_for_question();
    server.stop(Signal::INT);
    let both =
        format!("host=registry.example.com,{} connect_timeout=2 user=fleet dbname=postgres", registry.host().display());
    server.configure("snowflake_pg.registry_conninfo", both);
    server.start();
    assert_eq!(worker_of(&server), "1023", "{}", server.log());
}

#[test]
fn a_check_of_a_fleet_is_cancelled_once_a_silent_resolver_of_names_is_given_up() {
    need_hosts();
    let resolver = Resolver::start();
    let mut server = Cluster::builder().worker(1).create();
    server.resolve_names_at(&resolver.address());
    server.start();
    let mut client = server.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SET statement_timeout = '100ms'").expect("a setting");
    let check = "SELECT problem FROM snowflake_check_fleet('{host=a.example.com, host=b.example.com}')";
    assert_eq!(error(&mut client, check).code().code(), "57014");
    client.batch_execute("SELECT 1").expect("the session goes on");
    let mut names = resolver.questions();
    names.dedup();
    assert_eq!(names, ["a"], "the next one is not looked up");
}

#[test]
fn a_host_with_an_address_in_the_connection_string_needs_no_resolver_of_names() {
    need_hosts();
    let (resolver, registry) = (Resolver::start(), Registry::start());
    let port = port_of(&registry, Ipv4Addr::LOCALHOST);
    let conninfo = format!("host=registry.example.com hostaddr=127.0.0.1 port={port} user=fleet dbname=postgres");
    let mut server = member(&registry).set("snowflake_pg.registry_conninfo", conninfo).create();
    server.resolve_names_at(&resolver.address());
    server.start();
    server.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    assert_eq!(worker_of(&server), "1023", "{}", server.log());
    assert_eq!(resolver.questions(), Vec::<String>::new());
}

/// As in psql. The first one accepts connections, and then nothing comes.
#[test]
fn each_address_behind_the_name_of_a_registry_is_tried() {
    need_hosts();
    let registry = Registry::start();
    // The resolver puts the one first that is nearer to this machine's own.
    let far = Ipv4Addr::new(127, 99, 0, 1);
    let (port, near, _silent) = (0..100)
        .find_map(|nth| {
            let (port, near) = (port_of(&registry, far), Ipv4Addr::new(127, 0, 0, 2 + nth));
            TcpListener::bind((near, port)).ok().map(|silent| (port, near, silent))
        })
        .expect("a port");
    let conninfo = format!("host=registry.example.com port={port} connect_timeout=1 user=fleet dbname=postgres");
    let mut server = member(&registry).set("snowflake_pg.registry_conninfo", conninfo).create();
    server.name_hosts("registry.example.com", &[near, far].map(IpAddr::V4));
    server.start();
    server.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    assert_eq!(worker_of(&server), "1023", "{}", server.log());
}
