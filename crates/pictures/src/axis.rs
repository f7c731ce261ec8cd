//! Where a value is on an axis.

use std::iter::successors;

/// An axis from one pixel to another.
pub struct Axis {
    /// Whether equal distances are equal ratios.
    pub is_logarithmic: bool,
    /// The values at its ends, and the pixels.
    values: (f64, f64),
    pixels: (f64, f64),
    ticks: Vec<f64>,
}

impl Axis {
    /// An axis from one value to another, with a tick at each multiple of the step.
    pub fn with_step(least: f64, most: f64, step: f64, pixels: (f64, f64)) -> Self {
        let ticks = whole((least / step).ceil(), (most / step).floor()).map(|nth| nth * step).collect();
        Self { is_logarithmic: false, values: (least, most), pixels, ticks }
    }

    /// An axis with this many steps at most. A step is a power of ten, or 2 or 5 times that, and both ends are ticks.
    pub fn linear(least: f64, most: f64, steps: f64, pixels: (f64, f64)) -> Self {
        let power = 10_f64.powf(((most - least) / steps).log10().floor());
        let step = [1.0, 2.0, 5.0].map(|times| times * power).into_iter().find(|step| (most - least) / step <= steps);
        let step = step.unwrap_or(10.0 * power);
        let (first, last) = ((least / step).floor(), (most / step).ceil());
        let ticks = whole(first, last).map(|nth| nth * step).collect();
        Self { is_logarithmic: false, values: (first * step, last * step), pixels, ticks }
    }

    /// A logarithmic axis, from the power of ten below a value to the power of ten above another.
    pub fn logarithmic(least: f64, most: f64, pixels: (f64, f64)) -> Self {
        let (low, high) = (least.log10().floor(), most.log10().ceil());
        let ticks = whole(low, high).map(|exponent| 10_f64.powf(exponent)).collect();
        Self { is_logarithmic: true, values: (10_f64.powf(low), 10_f64.powf(high)), pixels, ticks }
    }

    /// The pixel of a value.
    pub fn at(&self, value: f64) -> f64 {
        let (first, last) = self.values;
        let share = if self.is_logarithmic {
            (value.max(first) / first).log10() / (last / first).log10()
        } else {
            (value - first) / (last - first)
        };
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }

    /// The middle between its ends, as a pixel.
    pub fn middle(&self) -> f64 {
        f64::midpoint(self.pixels.0, self.pixels.1)
    }

    /// Its values with a label, each with its pixel.
    pub fn ticks(&self) -> impl Iterator<Item = (f64, f64)> {
        self.ticks.iter().map(|&tick| (tick, self.at(tick)))
    }
}

/// The whole numbers from one to another.
fn whole(first: f64, last: f64) -> impl Iterator<Item = f64> {
    successors(Some(first), move |nth| Some(nth + 1.0)).take_while(move |&nth| nth <= last)
}
