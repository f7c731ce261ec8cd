//! Simulates a fleet for so many days, with a seed, and reports what was seen: `fleet_simulation [DAYS] [SEED]`.

#![forbid(unsafe_code)]

use fleet_simulation::report;
use fleet_simulation::settings::Settings;
use fleet_simulation::simulation::Simulation;
use std::process::ExitCode;

/// The nth argument, or what holds without it. `None` if it is no number.
fn argument(nth: usize, otherwise: u64) -> Option<u64> {
    std::env::args().nth(nth).filter(|text| !text.is_empty()).map_or(Some(otherwise), |text| text.parse().ok())
}

fn main() -> ExitCode {
    let days = argument(1, 30).and_then(|days| u32::try_from(days).ok()).filter(|days| (1..=30).contains(days));
    let (Some(days), Some(seed)) = (days, argument(2, 1)) else {
        eprintln!("usage: fleet_simulation [DAYS, 1 to 30] [SEED]");
        return ExitCode::FAILURE;
    };
    let findings = Simulation::new(Settings::whole(days, seed)).run();
    print!("{}", report::text(&findings));
    if findings.duplicates() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
