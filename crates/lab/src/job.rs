//! What a guest is told to do, and what it answers.

use serde::{Deserialize, Serialize};

/// Where a guest finds its job.
pub(crate) const JOB: &str = "/run/lab/job";

/// What a guest is to do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The command, program first.
    pub command: Vec<String>,
    /// The folder it runs in, the same as on the host. What is new there comes back.
    pub folder: String,
    /// Kernel settings: names of sysctl, or paths below `/sys` and `/proc`, and what to write.
    pub settings: Vec<(String, String)>,
    /// Environment of the command.
    pub environment: Vec<(String, String)>,
}

/// What a guest answers; the contents of files follow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Why the command was not run; `None` if it was.
    pub refused: Option<String>,
    /// Its exit status as a shell has it.
    pub exit: i32,
    /// It was ended before its time, as the host asked.
    #[serde(default)]
    pub was_ended: bool,
    /// Release of the kernel.
    pub kernel: String,
    /// Its command line.
    pub command_line: String,
    /// Seconds of the guest's clock from its start to that of the first process.
    pub boot_s: f64,
    /// Seconds of the guest's clock that the command took.
    pub command_s: f64,
    /// Standard output, standard error, then files that came about, relative to the job's folder.
    pub files: Vec<JobFile>,
}

/// A file that follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobFile {
    pub name: String,
    /// Permissions.
    pub mode: u32,
    pub bytes: u64,
}

impl Answer {
    /// The answer with the contents of its files, as it goes over the channel.
    pub(crate) fn pack(&self, contents: &[Vec<u8>]) -> serde_json::Result<Vec<u8>> {
        let head = serde_json::to_vec(self)?;
        let mut all = (head.len() as u64).to_le_bytes().to_vec();
        all.extend_from_slice(&head);
        for content in contents {
            all.extend_from_slice(content);
        }
        Ok(all)
    }

    /// Takes apart what [`Self::pack`] made.
    pub(crate) fn unpack(all: &[u8]) -> Result<(Self, Vec<Vec<u8>>), String> {
        let short = || "the results are shorter than their header says".to_owned();
        let (length, rest) = all.split_first_chunk::<8>().ok_or_else(short)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| short())?;
        let (head, mut rest) = rest.split_at_checked(length).ok_or_else(short)?;
        let answer: Self = serde_json::from_slice(head)
            .map_err(|error| format!("cannot parse the results: {error}"))?;
        let mut contents = Vec::new();
        for piece in &answer.files {
            let length = usize::try_from(piece.bytes).map_err(|_| short())?;
            let (content, after) = rest.split_at_checked(length).ok_or_else(short)?;
            contents.push(content.to_vec());
            rest = after;
        }
        Ok((answer, contents))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn answers_come_apart_as_they_were(
            contents in proptest::collection::vec(any::<Vec<u8>>(), 0..4), exit: i32,
        ) {
            let files = contents.iter().map(|c| JobFile { name: "x".into(), mode: 0o600, bytes: c.len() as u64 });
            let answer = Answer { exit, files: files.collect(), ..Answer::default() };
            let packed = answer.pack(&contents).unwrap();
            prop_assert_eq!(Answer::unpack(&packed).unwrap(), (answer, contents.clone()));
            if contents.iter().any(|c| !c.is_empty()) {
                prop_assert!(Answer::unpack(&packed[..packed.len() - 1]).is_err());
            }
        }

        #[test]
        fn nonsense_is_an_error(bytes: Vec<u8>) {
            prop_assert!(Answer::unpack(&bytes).is_err());
        }
    }
}
