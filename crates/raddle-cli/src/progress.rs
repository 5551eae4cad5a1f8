//! The bar on standard error.

use indicatif::{ProgressBar, ProgressStyle};

/// Shows how far a run has come, if standard error is a terminal, and leaves no trace of itself.
///
/// No thread of its own redraws it: that would take part in what is being timed.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar of `steps` steps.
    pub(crate) fn bar(what: &str, steps: u64) -> Progress {
        let bar = ProgressBar::new(steps).with_message(what.to_owned());
        let style = ProgressStyle::with_template("{msg:<14} [{bar:40}] {pos}/{len}");
        bar.set_style(style.expect("the template is well formed").progress_chars("=> "));
        bar.tick();
        Progress(bar)
    }

    /// A line that says what goes on, for work that has no steps to count.
    pub(crate) fn line(what: &str) -> Progress {
        let bar = ProgressBar::no_length().with_message(format!("{what} .."));
        bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is well formed"));
        bar.tick();
        Progress(bar)
    }

    /// So many steps of different kinds, each announced by [`Progress::say`].
    pub(crate) fn steps(steps: u64) -> Progress {
        let bar = ProgressBar::new(steps);
        let style = ProgressStyle::with_template("{pos}/{len} [{bar:24}] measuring {msg}");
        bar.set_style(style.expect("the template is well formed").progress_chars("=> "));
        Progress(bar)
    }

    /// Nothing to see.
    #[cfg(test)]
    pub(crate) fn hidden() -> Progress {
        Progress(ProgressBar::hidden())
    }

    /// The next step begins.
    pub(crate) fn say(&self, what: &str) {
        self.0.set_message(format!("{what} .."));
        self.0.inc(1);
        self.0.tick();
    }

    /// Whether so many steps have begun.
    pub(crate) fn is_at(&self, step: u64) -> bool {
        self.0.position() == step
    }

    /// So many steps have been done.
    pub(crate) fn add(&self, done: u64) {
        self.0.inc(done);
    }

    pub(crate) fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
