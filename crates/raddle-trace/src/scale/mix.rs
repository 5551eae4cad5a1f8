//! Pieces of work with several labels: what becomes of a tree of small forks, and of what comes before and after it.
//!
//! A recording of ten million events has a fork for every third. Those that nobody stole, and that hold too little work to be worth a
//! hand-off, or less than a small part of all, are put together while the events are read: two halves *beside* each other, and pieces that *follow*
//! each other. Both can be told exactly from what is kept here: how much of the work has which label, how much of the
//! longest way, and how much shorter that would be without it.

use super::label::Label;

/// So many labels a piece has at most: with more of them small forks stay as they are.
pub(super) const MOST_PARTS: usize = 64;

/// What of a piece has one label, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) label: Label,
    pub(crate) work: f64,
    /// On the longest way.
    pub(crate) on: f64,
    /// How much shorter the longest way would be if all of it took no time: another may be the longest one then.
    pub(crate) less: f64,
}

/// A piece of work with several labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Mix {
    pub(crate) parts: Vec<Part>,
    pub(crate) work: f64,
    pub(crate) span: f64,
    /// The longest way with a hand-off for each fork on it that is worth one.
    pub(crate) burdened: f64,
    /// How long it takes however many processors there are, if what is worth no hand-off is done by one.
    pub(crate) divided: f64,
    /// How much of that nobody else can share.
    pub(crate) serial: f64,
    /// The longest task without forks on the longest way.
    pub(crate) task: f64,
}

impl Mix {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        (self.work, self.span, self.task) = (0.0, 0.0, 0.0);
        (self.burdened, self.divided, self.serial) = (0.0, 0.0, 0.0);
    }

    /// What has this label.
    #[inline]
    pub(crate) fn part(&self, label: Label) -> Option<&Part> {
        self.parts.iter().find(|part| part.label == label)
    }

    /// The part with this label, which begins without any time.
    #[inline]
    fn part_of(&mut self, label: Label) -> &mut Part {
        let at = self.parts.iter().position(|part| part.label == label);
        let at = at.unwrap_or_else(|| {
            self.parts.push(Part { label, work: 0.0, on: 0.0, less: 0.0 });
            self.parts.len() - 1
        });
        &mut self.parts[at]
    }

    /// Then comes work of one label.
    #[inline]
    pub(super) fn goes_on(&mut self, label: Label, time: f64) {
        if time > 0.0 {
            let part = self.part_of(label);
            part.work += time;
            part.on += time;
            part.less += time;
        }
        self.work += time;
        self.span += time;
        self.burdened += time;
        self.divided += time;
        self.serial += time;
        if matches!(label, Label::In(_)) {
            self.task = self.task.max(time);
        }
    }

    /// Then comes another piece.
    #[inline]
    pub(super) fn then(&mut self, next: &Mix) {
        for more in &next.parts {
            let part = self.part_of(more.label);
            part.work += more.work;
            part.on += more.on;
            part.less += more.less;
        }
        self.work += next.work;
        self.span += next.span;
        self.burdened += next.burdened;
        self.divided += next.divided;
        self.serial += next.serial;
        self.task = self.task.max(next.task);
    }

    /// Another piece is done at the same time, by whoever takes it: that burdens it so much. None: it is worth no hand-off.
    #[inline]
    pub(super) fn beside(&mut self, other: &Mix, burden: Option<f64>) {
        let (mine, theirs) = (self.span, other.span);
        let span = mine.max(theirs);
        // Those that only the other has.
        for part in &other.parts {
            self.part_of(part.label);
        }
        for part in &mut self.parts {
            let same = other.part(part.label);
            let (work, on, less) = same.map_or((0.0, 0.0, 0.0), |p| (p.work, p.on, p.less));
            part.work += work;
            if theirs > mine {
                part.on = on;
            }
            part.less = span - (mine - part.less).max(theirs - less);
        }
        if theirs > mine {
            self.task = other.task;
        }
        self.work += other.work;
        self.span = span;
        self.burdened = self.burdened.max(other.burdened + burden.unwrap_or(0.0));
        (self.divided, self.serial) = match burden {
            Some(burden) => (self.divided.max(other.divided + burden).min(self.work), 0.0),
            None => (self.work, self.work),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAF: Label = Label::In(1);
    const BEFORE: Label = Label::Before(1);

    fn piece(parts: &[(Label, f64)]) -> Mix {
        let mut mix = Mix::default();
        parts.iter().for_each(|&(label, time)| mix.goes_on(label, time));
        mix
    }

    #[test]
    fn of_two_beside_each_other_the_longer_counts_and_the_other_may_without_a_label() {
        // 3 before a leaf of 10, beside a leaf of 12: without leaves, 3 are left.
        let mut mix = piece(&[(BEFORE, 3.0), (LEAF, 10.0)]);
        mix.beside(&piece(&[(LEAF, 12.0)]), Some(2.0));
        assert_eq!((mix.work, mix.span, mix.task), (25.0, 13.0, 10.0));
        assert_eq!((mix.burdened, mix.divided, mix.serial), (14.0, 14.0, 0.0));
        let leaf = Part { label: LEAF, work: 22.0, on: 10.0, less: 10.0 };
        // Without what comes before, 12 of the other half: one less.
        let before = Part { label: BEFORE, work: 3.0, on: 3.0, less: 1.0 };
        assert_eq!(mix.parts, [before, leaf]);

        mix.then(&piece(&[(Label::After(1), 5.0), (LEAF, 1.0)]));
        assert_eq!((mix.work, mix.span, mix.burdened, mix.task), (31.0, 19.0, 20.0, 10.0));
        assert_eq!(
            mix.part(LEAF).map(|part| (part.work, part.on, part.less)),
            Some((23.0, 11.0, 11.0))
        );

        let mut short = piece(&[(BEFORE, 1.0)]);
        short.beside(&mix, None);
        assert_eq!((short.work, short.span, short.task), (32.0, 19.0, 10.0));
        assert_eq!((short.burdened, short.divided, short.serial), (20.0, 32.0, 32.0));
        assert_eq!(
            short.part(BEFORE).map(|part| (part.work, part.on, part.less)),
            Some((4.0, 3.0, 1.0))
        );
    }
}
