//! A short text in shared memory.

use std::sync::atomic::{AtomicU64, Ordering, fence};

const WORDS: usize = 128;

/// A short text that processes write and read. Longer ones are cut.
pub struct SharedText {
    /// Odd while the text is written.
    version: AtomicU64,
    /// The length in bytes, then the bytes.
    words: [AtomicU64; WORDS],
}

impl Default for SharedText {
    fn default() -> Self {
        Self { version: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; WORDS] }
    }
}

impl SharedText {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes it, unless another process is writing another one.
    pub fn write(&self, text: &str) {
        let bytes = &text.as_bytes()[..text.floor_char_boundary((WORDS - 1) * 8)];
        let before = self.version.load(Ordering::Acquire);
        let is_free = before.is_multiple_of(2)
            && self.version.compare_exchange(before, before + 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !is_free {
            return;
        }
        fence(Ordering::Release);
        self.words[0].store(bytes.len() as u64, Ordering::Relaxed);
        for (word, chunk) in self.words[1..].iter().zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
        }
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Reads it; empty if it is just being written.
    pub fn read(&self) -> String {
        for _ in 0..100 {
            let before = self.version.load(Ordering::Acquire);
            let words: Vec<_> = self.words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before {
                let length = usize::try_from(words[0]).unwrap_or(0).min((WORDS - 1) * 8);
                let bytes: Vec<_> = words[1..].iter().flat_map(|word| word.to_le_bytes()).take(length).collect();
                return String::from_utf8_lossy(&bytes).into_owned();
            }
            std::hint::spin_loop();
        }
        String::new()
    }
}
