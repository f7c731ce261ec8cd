//! What tests share. It outlives the test that has made it, and ends with the program.

use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

type Work = Box<dyn FnOnce() + Send>;

/// Makes something whose servers are to outlive the thread of this test: a server ends with the thread that has
/// started it.
pub fn lasting<T: Send + 'static>(make: impl FnOnce() -> T + Send + 'static) -> T {
    static LASTING: LazyLock<Mutex<Sender<Work>>> = LazyLock::new(|| {
        let (sender, work) = channel::<Work>();
        thread::spawn(move || work.into_iter().for_each(|work| work()));
        Mutex::new(sender)
    });
    let (give, made) = channel();
    let work = move || drop(give.send(make()));
    LASTING.lock().unwrap_or_else(PoisonError::into_inner).send(Box::new(work)).expect("a thread that lasts");
    made.recv().expect("what was to be made")
}
