//! What was asked, and what was measured: all that tables and pictures are made of.

use serde::Serialize;

/// What is measured, and in what unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Question {
    pub part: &'static str,
    /// What of it, as the heading of a table.
    pub case: &'static str,
    pub unit: &'static str,
    /// Which of its values are the better ones.
    pub better: Better,
    /// The contender with which the others are compared.
    pub reference: &'static str,
}

/// Which of two values is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    Lower,
    Higher,
}

/// One contender's answer.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    #[serde(flatten)]
    pub question: Question,
    /// Whose it is.
    pub contender: &'static str,
    /// How many clients there were, or IDs; where that was varied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// One value a round.
    pub values: Vec<f64>,
    pub median: f64,
}

/// All contenders' answers to one question.
pub struct Answer<'a> {
    pub question: Question,
    /// In the order in which they were measured.
    pub figures: Vec<&'a Figure>,
}

impl Question {
    /// The heading of its table and its picture.
    pub fn heading(&self) -> String {
        let better = match self.better {
            Better::Lower => "less is better",
            Better::Higher => "more is better",
        };
        format!("{}, {} ({better})", self.case, self.unit)
    }

    /// The name of its picture, which is the same whatever else is measured.
    pub fn picture(&self) -> String {
        let text = format!("{} {}", self.part, self.case).to_lowercase();
        let words: Vec<_> = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
        words.join("-") + ".svg"
    }
}

impl Answer<'_> {
    /// What was varied, in words.
    pub fn varies(&self) -> &'static str {
        match self.question.part {
            "batches" => "IDs a statement",
            "saturation" => "backends",
            "low_load" | "standby" => "ms of pause",
            "latency" => "how many of 1,000 calls take no longer",
            "place" => "n",
            "growth" => "IDs taken",
            _ => "clients",
        }
    }

    /// The values of what was varied, in order.
    pub fn varied(&self) -> Vec<u64> {
        let mut at: Vec<_> = self.figures.iter().filter_map(|figure| figure.at).collect();
        at.sort_unstable();
        at.dedup();
        at
    }

    /// In the order in which they were measured.
    pub fn contenders(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for figure in &self.figures {
            if !names.contains(&figure.contender) {
                names.push(figure.contender);
            }
        }
        names
    }

    /// A contender's figure.
    pub fn find(&self, contender: &str, at: Option<u64>) -> Option<&Figure> {
        self.figures.iter().copied().find(|figure| figure.contender == contender && figure.at == at)
    }
}
