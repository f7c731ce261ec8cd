//! A server that speaks PostgreSQL's protocol, knows what a feed asks, and answers what it is told to.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::spawn;
use testbed::default_layout;
use testbed::hostile::{message, read_body};

/// What the server answers when it is asked for its rows.
#[derive(Clone)]
pub enum Answer {
    /// A horizon and its time, as the first result; then rows.
    Rows(Option<String>, Option<String>, Vec<Row>),
    /// A horizon, and what it says is its worker.
    Worker(i64, &'static [u8]),
    /// An error: its SQLSTATE and message.
    Error(&'static str, Vec<u8>),
    /// The same bytes, as long as the client takes them, after some others.
    Endless(Vec<u8>, Vec<u8>),
    /// Nothing.
    Silence,
    /// Nothing, either, to who connects.
    NoSession,
}

/// The ID of a row, and the text of the row.
pub type Row = (Option<String>, Option<Vec<u8>>);

pub struct Liar {
    port: u16,
    answer: Arc<Mutex<Answer>>,
}

impl Liar {
    pub fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let answer = Arc::new(Mutex::new(answer));
        let told = Arc::clone(&answer);
        spawn(move || {
            for client in listener.incoming().flatten() {
                let told = Arc::clone(&told);
                // It ends with an error when the client has had enough.
                spawn(move || serve(client, port, &told));
            }
        });
        Self { port, answer }
    }

    pub fn answer(&self, answer: Answer) {
        *self.answer.lock().expect("an answer") = answer;
    }

    /// The options of a foreign server.
    pub fn options(&self) -> String {
        let to = format!("host '127.0.0.1', port '{}', dbname 'postgres', connect_timeout '30'", self.port);
        to + ", tcp_user_timeout '30000', sslmode 'disable', gssencmode 'disable'"
    }
}

/// A row of the table outbox of the reader, with a note.
pub fn row(id: i64, note: &str) -> Row {
    (Some(id.to_string()), Some(format!("({note},{id})").into_bytes()))
}

fn serve(mut client: TcpStream, port: u16, told: &Mutex<Answer>) -> io::Result<()> {
    read_body(&mut client)?;
    if matches!(*told.lock().expect("an answer"), Answer::NoSession) {
        let _ = client.read(&mut [0]);
        return Ok(());
    }
    // Otherwise dblink would set it, and wait without end.
    let encoding = message(b'S', b"client_encoding\0UTF8\0");
    client.write_all(&[message(b'R', &[0; 4]), encoding, message(b'Z', b"I")].concat())?;
    loop {
        let mut kind = [0];
        client.read_exact(&mut kind)?;
        let body = read_body(&mut client)?;
        if kind[0] != b'Q' {
            return Ok(());
        }
        let query = String::from_utf8_lossy(&body);
        let answer = if query.contains("pg_extension") {
            result(&[&[Some(b"{public}")]])
        } else if query.contains("PREPARE") {
            result(&[&[Some(b"{}")]])
        } else if query.contains("relkind") {
            result(&[&[Some(b"{r,NULL}")]])
        } else {
            let answer = told.lock().expect("an answer").clone();
            match answer {
                Answer::Rows(horizon, time, rows) => {
                    let [horizon, time] = [horizon, time].map(|text| text.unwrap_or_else(|| "NULL".into()));
                    let of = format!("{port},1,\"{}\",{port}", default_layout());
                    let mut both = result(&[&[Some(format!("{{{horizon},{time},{of},0}}").as_bytes())]]);
                    if query.contains("ROW(") {
                        let rows: Vec<_> =
                            rows.iter().map(|(id, text)| [id.as_deref().map(str::as_bytes), text.as_deref()]).collect();
                        both.extend(result(&rows.iter().map(<[_; 2]>::as_slice).collect::<Vec<_>>()));
                    }
                    both
                }
                Answer::Worker(horizon, worker) => {
                    let of = format!("{horizon},2026-01-01 00:00:00+00,{port},1,\"{}\"", default_layout());
                    let told = [b"{", of.as_bytes(), b",", worker, b",0}"].concat();
                    [result(&[&[Some(&told)]]), result(&[])].concat()
                }
                Answer::Error(state, text) => {
                    let fields = [b"SERROR\0C", state.as_bytes(), b"\0M", text.as_slice(), b"\0\0"].concat();
                    message(b'E', &fields)
                }
                Answer::Endless(before, bytes) => {
                    client.write_all(&before)?;
                    let many = bytes.repeat((1 << 18) / bytes.len() + 1);
                    loop {
                        client.write_all(&many)?;
                    }
                }
                Answer::Silence | Answer::NoSession => {
                    let _ = client.read(&mut [0]);
                    return Ok(());
                }
            }
        };
        client.write_all(&[answer, message(b'Z', b"I")].concat())?;
    }
}

/// A result whose columns are of type text.
fn result(rows: &[&[Option<&[u8]>]]) -> Vec<u8> {
    let width = rows.first().map_or(2, |row| row.len());
    let mut all = columns(width);
    for row in rows {
        all.extend(data(row));
    }
    all.extend(message(b'C', b"SELECT 1\0"));
    all
}

/// What begins a result.
pub fn columns(width: usize) -> Vec<u8> {
    let column = [b'x', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0];
    message(b'T', &[&[0, u8::try_from(width).expect("few columns")], column.repeat(width).as_slice()].concat())
}

/// A row of a result.
pub fn data(row: &[Option<&[u8]>]) -> Vec<u8> {
    let mut body = vec![0, u8::try_from(row.len()).expect("few columns")];
    for value in row {
        let length = value.map_or(-1, |value| i32::try_from(value.len()).expect("a length"));
        body.extend(length.to_be_bytes());
        body.extend(value.unwrap_or_default());
    }
    message(b'D', &body)
}
