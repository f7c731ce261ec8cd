//! What is said of a column when its statement has run.

use crate::postgres::report::error_report;
use crate::postgres::server_encoding::{characters, displayable};
use pgrx::prelude::*;
use std::ffi::CStr;

/// A message on a column.
pub struct Message {
    level: PgLogLevel,
    message: String,
    detail: Option<String>,
    hint: Option<&'static str>,
}

impl Message {
    pub fn notice(message: String, detail: Option<String>, hint: Option<&'static str>) -> Self {
        Self { level: PgLogLevel::NOTICE, message, detail, hint }
    }

    pub fn warning(message: String, detail: String, hint: Option<&'static str>) -> Self {
        Self { level: PgLogLevel::WARNING, message, detail: Some(detail), hint }
    }

    pub fn send(&self) {
        let code = match self.level {
            PgLogLevel::WARNING => PgSqlErrorCode::ERRCODE_WARNING,
            _ => PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
        };
        let mut report = error_report(code, self.message.clone());
        if let Some(detail) = &self.detail {
            report = report.set_detail(detail.clone());
        }
        if let Some(hint) = self.hint {
            report = report.set_hint(hint);
        }
        report.report(self.level);
    }
}

/// A text of the server, for a message of this library.
pub fn readable(text: &CStr) -> String {
    displayable(&characters(text.to_bytes()))
}
