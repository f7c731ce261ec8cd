//! Runs the tests of a program, more at a time than there are processors, since tests mostly wait; then shows where the
//! time went.

use crate::test_run::{Skipped, set_testing};
use crate::times::Times;
use crate::traces::Traces;
use crate::{scratch, shared};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::any::Any;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, available_parallelism, sleep};
use std::time::{Duration, Instant};

/// How many tests run at a time for each processor.
const TESTS_PER_PROCESSOR: usize = 8;

/// How many at most: servers that are shared have a hundred connections.
const MOST_TESTS: usize = 32;

/// A test that runs for longer hangs. A full run has no limit, nor has a test that runs only by the command that
/// prepares it.
const LONGEST: Duration = Duration::from_secs(600);

/// A function with the attribute [`test`](crate::test).
pub struct Test {
    /// The program, the modules and the function.
    pub path: &'static str,
    pub kind: Kind,
    /// Panics if the promise is broken.
    pub run: fn(),
}

/// When a test runs.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Beside others.
    Plain,
    /// Beside others, but not beside another one of this kind: both would need something that there is only once.
    Alone,
    /// Only by the command that this text names, which prepares what the test needs.
    By(&'static str),
}

inventory::collect!(Test);

impl Test {
    fn name(&self) -> &'static str {
        self.path.split_once("::").expect("a path in a program").1
    }
}

/// The names of the tests with the attribute.
pub fn names() -> impl Iterator<Item = String> {
    inventory::iter::<Test>.into_iter().map(|test| test.name().to_owned())
}

/// A test under the name that it is chosen by, which begins with its part: `part::test`.
pub struct Case {
    name: String,
    kind: Kind,
    run: Box<dyn FnOnce() -> Result<(), Failed> + Send>,
}

impl Case {
    /// A test beside those with the attribute.
    pub fn new(name: impl Into<String>, kind: Kind, run: impl FnOnce() + Send + 'static) -> Self {
        Self::fallible(name, kind, || {
            run();
            Ok(())
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// A test that returns what is wrong.
    pub fn fallible(
        name: impl Into<String>,
        kind: Kind,
        run: impl FnOnce() -> Result<(), Failed> + Send + 'static,
    ) -> Self {
        Self { name: name.into(), kind, run: Box::new(run) }
    }
}

/// Says what is wrong with what servers have recorded.
pub type Check = fn(&Traces) -> Result<(), String>;

/// Runs these tests, and those with the attribute, as the command line asks for. A filter of several words chooses
/// tests whose names have all of them, and `|` separates such filters. `check` says what is wrong with what the servers
/// of a test that has passed have recorded. `report` prints what the tests have seen, and says what is wrong with that;
/// it is told whether all tests have run.
pub fn run(
    cases: impl IntoIterator<Item = Case>,
    check: Check,
    report: impl FnOnce(bool) -> Result<(), String>,
) -> ExitCode {
    let mut arguments = Arguments::from_args();
    let chosen = arguments.filter.clone().unwrap_or_default();
    let filter = arguments.filter.take_if(|filter| filter.contains([' ', '|'])).unwrap_or_default();
    set_testing();
    let threads = available_parallelism().map_or(1, usize::from) * TESTS_PER_PROCESSOR;
    let threads = threads.min(MOST_TESTS);
    arguments.test_threads.get_or_insert(threads);

    let attributed = inventory::iter::<Test>.into_iter().map(|test| Case::new(test.name(), test.kind, test.run));
    let mut cases: Vec<_> = cases.into_iter().collect();
    let given = cases.len();
    cases.extend(attributed);
    // The linker's order means nothing. What takes long comes first, so that nothing is left alone at the end. Tests
    // that wait for each other come last: they would keep others from beginning.
    cases[given..].sort_by(|one, other| one.name.cmp(&other.name));
    let recorded = Times::recorded();
    cases.sort_by_key(|case| (matches!(case.kind, Kind::Alone), Reverse(recorded.of(&case.name))));
    cases.retain(|case| filter.split('|').any(|words| words.split(' ').all(|word| case.name.contains(word))));

    if !cases.iter().any(|case| chosen.contains([' ', '|']) || case.name.contains(&chosen)) || cases.is_empty() {
        eprintln!("no test has a name with {chosen:?}");
        return ExitCode::FAILURE;
    }
    let is_whole = filter.is_empty() && chosen.is_empty() && arguments.skip.is_empty() && !arguments.list;
    let times = Arc::new(Mutex::new(Vec::new()));
    let trials = cases.into_iter().map(|case| trial(case, check, &times)).collect();
    if !in_full() {
        thread::spawn(end_if_one_hangs);
    }
    let began = Instant::now();
    let conclusion = libtest_mimic::run(&arguments, trials);
    shared::end();
    let is_whole = is_whole && !HAS_SKIPPED.load(Ordering::Relaxed);
    let outcome = check(&Traces::others()).and_then(|()| report(is_whole));
    if let Err(deviation) = &outcome {
        println!("\n{deviation}");
    }
    let mut times = lock(&times);
    recorded.show(&mut times, began.elapsed(), is_whole);
    if is_whole && std::env::var_os("RECORD").is_some() {
        recorded.record(&times);
    }
    lock(&FAILED).iter().for_each(|failed| println!("\nfailed: {failed}"));
    if outcome.is_ok() { conclusion.exit_code() } else { ExitCode::FAILURE }
}

/// Whether tests run in full, and not in their short form.
pub fn in_full() -> bool {
    std::env::var_os("SNOWFLAKE_PG_TESTS").is_some_and(|bounds| bounds == "full")
}

type Taken = Mutex<Vec<(String, Duration)>>;

/// The tests that run now, and since when.
static RUNNING: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());

/// Whether a test could not be run on this machine.
static HAS_SKIPPED: AtomicBool = AtomicBool::new(false);

/// The tests that have failed, and why. They are shown at the very end: whoever has only that can mend them.
static FAILED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// How much is shown there of what a failure says, in characters.
const LONGEST_REASON: usize = 1000;

fn trial(Case { name, kind, run }: Case, check: Check, times: &Arc<Taken>) -> Trial {
    static ALONE: Mutex<()> = Mutex::new(());
    let times = Arc::clone(times);
    let timed = {
        let name = name.clone();
        move || {
            let _turn = matches!(kind, Kind::Alone).then(|| lock(&ALONE));
            let began = Instant::now();
            if !matches!(kind, Kind::By(_)) {
                lock(&RUNNING).insert(name.clone(), began);
            }
            let (outcome, traces) = Traces::of(|| catch_unwind(AssertUnwindSafe(run)));
            lock(&RUNNING).remove(&name);
            lock(&times).push((name.clone(), began.elapsed()));
            let outcome = match outcome {
                Ok(outcome) => outcome.and_then(|()| Ok(check(&traces)?)).map(|()| Completion::Completed),
                Err(panic) => match panic.downcast_ref() {
                    Some(Skipped { reason, by_version }) => {
                        HAS_SKIPPED.fetch_or(!by_version, Ordering::Relaxed);
                        Ok(Completion::ignored_with(reason))
                    }
                    None => Err(Failed::from(reason(&*panic))),
                },
            };
            if let Err(failed) = &outcome {
                let why = failed.message().unwrap_or_default();
                lock(&FAILED).push(format!("{name}: {}", why.chars().take(LONGEST_REASON).collect::<String>()));
            }
            outcome
        }
    };
    let trial = Trial::ignorable_test(name, timed);
    match kind {
        Kind::By(command) => trial.with_kind(command).with_ignored_flag(true),
        Kind::Plain | Kind::Alone => trial,
    }
}

/// Nobody learns from a run that never ends which of its tests it waits for.
fn end_if_one_hangs() {
    loop {
        sleep(Duration::from_secs(1));
        if let Some((name, _)) = lock(&RUNNING).iter().find(|(_, began)| began.elapsed() > LONGEST) {
            println!("\nafter {} s\nstill running: {name}", LONGEST.as_secs());
            scratch::end(1);
        }
    }
}

/// What a panic says, or why a test was skipped.
pub fn reason(panic: &(dyn Any + Send)) -> String {
    if let Some(Skipped { reason, .. }) = panic.downcast_ref() {
        return format!("skipped: {reason}");
    }
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default()
}

/// A test that has failed has done no harm to what others share.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
