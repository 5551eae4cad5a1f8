//! What a strand holds, as numbers.

/// What a strand holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Holds {
    /// Things held fast, by address, or 0.
    pub(in super::super) fast: [usize; 2],
    /// Their levels beyond the first; 0 where nothing is held.
    pub(in super::super) again: [usize; 2],
    pub(in super::super) others: u32,
}

impl Holds {
    /// How many, levels included.
    pub(in super::super) fn count(&self) -> u32 {
        let fast =
            self.fast.iter().filter(|&&thing| thing != 0).count() + self.again[0] + self.again[1];
        self.others.wrapping_add(fast as u32)
    }

    /// Whether that is something. Of the others there may be less than none: whoever unlocks what somebody else has locked
    /// takes that off itself.
    pub(in super::super) fn any(&self) -> bool {
        self.fast != [0; 2] || self.others as i32 > 0
    }

    /// Lets one level go, by somebody else than the strand.
    pub(in super::super) fn release(&mut self, thing: usize) -> Release {
        match self.fast.iter().position(|&fast| fast == thing) {
            Some(at) if self.again[at] != 0 => {
                self.again[at] -= 1;
                Release::Level
            }
            Some(at) => {
                self.fast[at] = 0;
                Release::Last
            }
            None => Release::Unknown,
        }
    }

    /// Makes of what is written down one of the others, with all its levels. It is out of date.
    pub(in super::super) fn forget(&mut self, thing: usize) {
        for (fast, again) in self.fast.iter_mut().zip(&mut self.again) {
            if *fast == thing {
                let others = i64::from(self.others as i32) + *again as i64 + 1;
                self.others = i32::try_from(others).unwrap_or(i32::MAX) as u32;
                (*fast, *again) = (0, 0);
            }
        }
    }
}

/// What [`Local::let_go`](super::Local::let_go) has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// One level of several: it is still held.
    Level,
    /// The last level: it is not written down any more.
    Last,
    /// It is not written down as held fast.
    Unknown,
}

/// Takes one level off `thing`.
pub(super) fn count_down(holds: &mut Holds, thing: usize) -> Release {
    match holds.release(thing) {
        Release::Unknown => {
            holds.others = holds.others.wrapping_sub(1); // H2
            Release::Last
        }
        found => found,
    }
}
