//! How thoroughly a run measures.

/// How thoroughly to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// For figures to be published.
    Full,
    /// To see that everything works, in less than a minute.
    Quick,
}

impl Effort {
    /// The one or the other.
    pub fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}
