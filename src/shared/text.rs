//! Short texts in shared memory.

use std::array::from_fn;
use std::sync::atomic::{AtomicU64, Ordering, fence};

const WORDS: usize = 128;

/// How many bytes a text can have.
const LONGEST: usize = (WORDS - 1) * 8;

/// Short texts that processes write and read together. Longer ones are cut.
pub struct SharedTexts<const COUNT: usize> {
    /// Odd while the texts are written.
    version: AtomicU64,
    /// The length of each in bytes, then the bytes.
    texts: [[AtomicU64; WORDS]; COUNT],
}

/// A short text that processes write and read. A longer one is cut.
pub type SharedText = SharedTexts<1>;

impl<const COUNT: usize> Default for SharedTexts<COUNT> {
    fn default() -> Self {
        Self { version: AtomicU64::new(0), texts: [const { [const { AtomicU64::new(0) }; WORDS] }; COUNT] }
    }
}

impl<const COUNT: usize> SharedTexts<COUNT> {
    /// Writes them, unless another process is writing others.
    pub fn write_all(&self, texts: [&str; COUNT]) {
        let version = self.version.load(Ordering::Acquire);
        let is_free = version.is_multiple_of(2)
            && self.version.compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !is_free {
            return;
        }
        fence(Ordering::Release);
        for (words, text) in self.texts.iter().zip(texts) {
            let bytes = &text.as_bytes()[..text.floor_char_boundary(LONGEST)];
            words[0].store(bytes.len() as u64, Ordering::Relaxed);
            for (word, chunk) in words[1..].iter().zip(bytes.chunks(8)) {
                let mut padded = [0; 8];
                padded[..chunk.len()].copy_from_slice(chunk);
                word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
            }
        }
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Reads them; empty ones if they are just being written.
    pub fn read_all(&self) -> [String; COUNT] {
        for _ in 0..100 {
            let version = self.version.load(Ordering::Acquire);
            let read = |words: &[AtomicU64; WORDS]| words.each_ref().map(|word| word.load(Ordering::Relaxed));
            let texts = self.texts.each_ref().map(read);
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version {
                return texts.map(|words| {
                    let length = usize::try_from(words[0]).unwrap_or(0).min(LONGEST);
                    let bytes: Vec<_> = words[1..].iter().flat_map(|word| word.to_le_bytes()).take(length).collect();
                    String::from_utf8_lossy(&bytes).into_owned()
                });
            }
            std::hint::spin_loop();
        }
        from_fn(|_| String::new())
    }
}

impl SharedText {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes it, unless another process is writing another one.
    pub fn write(&self, text: &str) {
        self.write_all([text]);
    }

    /// Reads it; empty if it is just being written.
    pub fn read(&self) -> String {
        let [text] = self.read_all();
        text
    }
}
