//! The clocks of machines: they drift, are corrected, are set wrong, and stop.

use crate::chance::Chance;
use crate::time::{Micros, SECOND};

/// How often NTP corrects a clock: its longest usual interval.
pub const POLL: Micros = 1024 * SECOND;

/// The offset from which on NTP steps a clock, in microseconds, as ntpd does.
const STEP_THRESHOLD_US: i64 = 128_000;

/// How fast NTP slews a clock at most, in parts per billion.
const FASTEST_SLEW_PPB: i64 = 500_000;

/// A clock that shows the time since 1970. Between two events that change it, it runs at one rate.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// True time of the last change.
    changed: Micros,
    /// What it showed then.
    reading: Micros,
    /// How much faster it runs than true time, in parts per billion.
    rate_ppb: i64,
    /// How much faster it would run without corrections.
    drift_ppb: i64,
    /// What NTP has learned of the drift.
    learned_ppb: i64,
    /// Whether it stands still.
    is_stopped: bool,
    /// Whether NTP corrects it.
    is_disciplined: bool,
}

impl Clock {
    /// A clock that is nearly right, and drifts by 50 ppm at most.
    pub fn new(now: Micros, chance: &mut Chance) -> Self {
        let drift_ppb = chance.within(50_000);
        let reading = now.saturating_add_signed(chance.within(5000));
        Self {
            changed: now,
            reading,
            rate_ppb: drift_ppb,
            drift_ppb,
            learned_ppb: 0,
            is_stopped: false,
            is_disciplined: true,
        }
    }

    /// What it shows at this true time.
    pub fn read(&self, now: Micros) -> Micros {
        if self.is_stopped {
            return self.reading;
        }
        // Signed: what is made up for can have been before the last change.
        let since = now.cast_signed() - self.changed.cast_signed();
        self.reading.saturating_add_signed(since + since / 1000 * self.rate_ppb / 1_000_000)
    }

    /// How far it is ahead of true time, in microseconds.
    pub fn error(&self, now: Micros) -> i64 {
        self.read(now).cast_signed() - now.cast_signed()
    }

    /// Whether NTP corrects it.
    pub fn is_disciplined(&self) -> bool {
        self.is_disciplined
    }

    /// Sets it by this much, in microseconds, and keeps NTP away.
    pub fn set_wrong(&mut self, now: Micros, by: i64) {
        self.change(now);
        self.reading = self.reading.saturating_add_signed(by);
        self.is_disciplined = false;
    }

    /// Stops it, and keeps NTP away.
    pub fn stop(&mut self, now: Micros) {
        self.change(now);
        self.is_stopped = true;
        self.is_disciplined = false;
    }

    /// Takes NTP away: it drifts.
    pub fn neglect(&mut self, now: Micros) {
        self.change(now);
        self.rate_ppb = self.drift_ppb;
        self.is_disciplined = false;
    }

    /// Lets it go again, and lets NTP correct it at once.
    pub fn repair(&mut self, now: Micros, chance: &mut Chance) {
        self.change(now);
        self.is_stopped = false;
        self.is_disciplined = true;
        self.discipline(now, chance);
    }

    /// NTP: steps it if it is far off, and else slews it. Knows the time to within two milliseconds.
    pub fn discipline(&mut self, now: Micros, chance: &mut Chance) {
        if !self.is_disciplined {
            return;
        }
        self.change(now);
        let offset = self.error(now) + chance.within(2000);
        if offset.abs() > STEP_THRESHOLD_US {
            self.reading = self.reading.saturating_add_signed(-offset);
            return;
        }
        // What would make up for the offset until the next time, in parts per billion.
        let whole_ppb = offset * 1_000_000_000 / POLL.cast_signed();
        self.learned_ppb -= whole_ppb / 4;
        let correction = (self.learned_ppb - whole_ppb / 2).clamp(-FASTEST_SLEW_PPB, FASTEST_SLEW_PPB);
        self.rate_ppb = self.drift_ppb + correction;
    }

    fn change(&mut self, now: Micros) {
        self.reading = self.read(now);
        self.changed = now;
    }
}
