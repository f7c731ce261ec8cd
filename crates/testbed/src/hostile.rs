//! A server that speaks just enough of PostgreSQL's protocol to be asked, and then answers as no server should.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::spawn;

/// What a [`HostileServer`] answers to each query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostileAnswer {
    /// The beginning of a COPY, by the type of its message: `H` sends data, `G` wants some, and `W` does both.
    Copy(u8),
    /// Results without end.
    Results,
    /// One result, whose rows have no end.
    Rows,
    /// One row of a gigabyte.
    LongRow,
    /// New values of parameters, without end.
    Parameters,
    /// The same, before it says that it is ready.
    ParametersAtStart,
    /// Notices without end.
    Notices,
    /// Nothing.
    Silence,
    /// Asks for a password that is hashed for most of an hour, before it says that it is ready.
    LongHash,
}

impl HostileAnswer {
    /// All with which libpq returns.
    pub const ALL: [Self; 10] = [
        Self::Copy(b'H'),
        Self::Copy(b'G'),
        Self::Copy(b'W'),
        Self::Results,
        Self::Rows,
        Self::LongRow,
        Self::Parameters,
        Self::ParametersAtStart,
        Self::Notices,
        Self::Silence,
    ];
}

/// The text of the notices.
pub const HOSTILE_NOTICE: &str = "a notice of a hostile server";

/// The longest row that is announced.
const GIGABYTE: usize = 1 << 30;

/// Such a server, until the process ends.
pub struct HostileServer(u16);

impl HostileServer {
    pub fn start(answer: HostileAnswer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        spawn(move || {
            for client in listener.incoming().flatten() {
                // It ends with an error when the client has had enough.
                spawn(move || serve(client, answer));
            }
        });
        Self(port)
    }

    /// The connection string.
    pub fn conninfo(&self) -> String {
        format!("host=127.0.0.1 port={} user=postgres dbname=postgres", self.0)
    }
}

fn serve(mut client: TcpStream, answer: HostileAnswer) -> io::Result<()> {
    const PROTOCOL_3: u32 = 3 << 16;
    while read_startup(&mut client)? >> 16 != PROTOCOL_3 >> 16 {
        // Neither TLS nor GSSAPI.
        client.write_all(b"N")?;
    }
    if answer == HostileAnswer::LongHash {
        return ask_for_long_hash(&mut client);
    }
    client.write_all(&message(b'R', &0_u32.to_be_bytes()))?;
    if answer == HostileAnswer::ParametersAtStart {
        return send_parameters(&mut client);
    }
    client.write_all(&message(b'Z', b"I"))?;
    // Until Sync, at the end of a query.
    while read_message(&mut client)? != b'S' {}
    client.write_all(&[message(b'1', &[]), message(b'2', &[])].concat())?;
    match answer {
        HostileAnswer::Copy(kind) => {
            client.write_all(&message(kind, &[0; 3]))?;
            wait(&mut client)
        }
        HostileAnswer::Results => repeat(&mut client, &message(b'C', b"SELECT 0\0")),
        HostileAnswer::Rows => {
            client.write_all(&columns())?;
            repeat(&mut client, &message(b'D', &row(8000, &[b'x'; 8000])))
        }
        HostileAnswer::LongRow => {
            client.write_all(&columns())?;
            let mut beginning = message(b'D', &row(GIGABYTE, &[]));
            beginning[1..5].copy_from_slice(&u32::try_from(GIGABYTE + 10).expect("a length").to_be_bytes());
            client.write_all(&beginning)?;
            repeat(&mut client, &[b'x'; 8000])
        }
        HostileAnswer::Parameters | HostileAnswer::ParametersAtStart => send_parameters(&mut client),
        HostileAnswer::Notices => {
            let fields = format!("SNOTICE\0C00000\0M{HOSTILE_NOTICE}\0\0");
            repeat(&mut client, &message(b'N', fields.as_bytes()))
        }
        HostileAnswer::Silence | HostileAnswer::LongHash => wait(&mut client),
    }
}

/// Asks for a password by SCRAM, with as many iterations as there can be.
fn ask_for_long_hash(client: &mut TcpStream) -> io::Result<()> {
    let authenticate = |code: u32, body: &[u8]| message(b'R', &[&code.to_be_bytes(), body].concat());
    client.write_all(&authenticate(10, b"SCRAM-SHA-256\0\0"))?;
    client.read_exact(&mut [0])?;
    let first = read_body(client)?;
    let nonce = first.windows(2).position(|two| two == b"r=").expect("a nonce");
    let asks = [&first[nonce..], format!("server,s=c2FsdA==,i={}", i32::MAX).as_bytes()].concat();
    client.write_all(&authenticate(11, &asks))?;
    wait(client)
}

/// The code of a message at the start, which has no type.
fn read_startup(client: &mut TcpStream) -> io::Result<u32> {
    let body = read_body(client)?;
    Ok(u32::from_be_bytes(body[..4].try_into().expect("four bytes")))
}

/// The type of a message.
fn read_message(client: &mut TcpStream) -> io::Result<u8> {
    let mut kind = [0];
    client.read_exact(&mut kind)?;
    read_body(client)?;
    Ok(kind[0])
}

/// What comes after the type of a message.
pub fn read_body(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    let mut body = vec![0; u32::from_be_bytes(length).saturating_sub(4) as usize];
    client.read_exact(&mut body)?;
    Ok(body)
}

/// A message of a server, by its type.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("a length").to_be_bytes();
    [&[kind], length.as_slice(), body].concat()
}

/// One column of type text.
fn columns() -> Vec<u8> {
    message(b'T', &[0, 1, b'x', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0])
}

/// A row whose only value has this length.
fn row(length: usize, value: &[u8]) -> Vec<u8> {
    let length = u32::try_from(length).expect("a length").to_be_bytes();
    [&[0, 1], length.as_slice(), value].concat()
}

/// libpq accepts at most 30,000 bytes of one, and goes through all that it has for each.
fn send_parameters(client: &mut TcpStream) -> io::Result<()> {
    let value = "x".repeat(29_000);
    for nth in 0_u64.. {
        client.write_all(&message(b'S', format!("{nth}\0{value}\0").as_bytes()))?;
    }
    Ok(())
}

/// Sends these bytes as long as the client takes them, about a megabyte at a time.
fn repeat(client: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let many = bytes.repeat((1 << 20) / bytes.len());
    loop {
        client.write_all(&many)?;
    }
}

/// Until the client has gone.
fn wait(client: &mut TcpStream) -> io::Result<()> {
    loop {
        read_message(client)?;
    }
}
