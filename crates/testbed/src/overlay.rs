//! A data directory in the lower layer of an overlay file system, as in a container that is started from an image.

use crate::host::running_as_root;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The layers above a data directory. Only the server's processes see them: they are mounted in a namespace of their
/// own, which ends with them.
pub(crate) struct Overlay {
    lower: PathBuf,
    upper: PathBuf,
    work: PathBuf,
}

impl Overlay {
    /// Layers above a directory. `None` if they can't be mounted, as by anybody except root.
    pub(crate) fn new(lower: PathBuf, upper: PathBuf, work: PathBuf) -> Option<Self> {
        let overlay = Self { lower, upper, work };
        let works = running_as_root()
            && overlay.command().arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        works.then_some(overlay)
    }

    /// The beginning of a command that runs a program, which is to follow, above the layers.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new("unshare");
        let [lower, upper, work] = [&self.lower, &self.upper, &self.work].map(|path| path.display().to_string());
        let mount = format!(
            "mount -t overlay overlay -o lowerdir={lower},upperdir={upper},workdir={work} {lower} && exec \"$@\""
        );
        command.args(["--mount", "--", "sh", "-c", &mount, "sh"]);
        command
    }
}
