//! Spans of the crate `tracing` follow tasks, as soon as there is a subscriber.
//!
//! Whoever makes a `Dispatch` has all callsites asked anew whether they are of interest; so a callsite of ours
//! hears of it.

use std::sync::Once;

use raddle_sync::atomic::{AtomicBool, Ordering};
use tracing_core::callsite::{self, Callsite, Identifier};
use tracing_core::dispatcher::{self, DefaultGuard, Dispatch};
use tracing_core::field::FieldSet;
use tracing_core::metadata::{Kind, LevelFilter};
use tracing_core::span::Id;
use tracing_core::subscriber::{Interest, NoSubscriber};
use tracing_core::{Level, Metadata};

use crate::local::follow::{activate, end_theirs};

/// How many spans of a thread are hidden at most: a subscriber may forget to leave what it is told to.
const DEEPEST: usize = 4096;

/// Listens for subscribers, from the first pool on.
pub(crate) fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| callsite::register(&BELL));
}

/// The callsite that hears of new subscribers.
struct Bell {
    /// It has been asked for the first time, which is when it was registered.
    registered: AtomicBool,
}

static BELL: Bell = Bell { registered: AtomicBool::new(false) };
static METADATA: Metadata<'static> = Metadata::new(
    "subscriber",
    "raddle",
    Level::TRACE,
    None,
    None,
    None,
    FieldSet::new(&[], Identifier(&BELL)),
    Kind::SPAN,
);

impl Callsite for Bell {
    fn set_interest(&self, interest: Interest) {
        // ORD: calls come one at a time.
        let again = self.registered.swap(true, Ordering::Relaxed);
        if again || !interest.is_never() || LevelFilter::current() != LevelFilter::OFF {
            activate();
        }
    }

    fn metadata(&self) -> &Metadata<'_> {
        &METADATA
    }
}

/// A subscriber, and the span that it says the thread is in.
pub(crate) struct Here {
    subscriber: Dispatch,
    span: Option<Id>,
    /// The span is held open by this.
    held: bool,
}

impl Drop for Here {
    #[inline]
    fn drop(&mut self) {
        if self.held {
            self.let_go();
        }
    }
}

/// What the thread was in, and what it is in now.
pub(crate) struct Moved {
    entered: Option<(Dispatch, Id)>,
    default: Option<DefaultGuard>,
    hidden: Option<(Dispatch, Vec<Id>)>,
}

impl Here {
    /// Where the thread is, with the span held open.
    pub(crate) fn hold() -> Option<Here> {
        let mut here = Here::borrow()?;
        here.span = here.span.take().map(|id| here.subscriber.clone_span(&id));
        here.held = true;
        Some(here)
    }

    /// As [`hold`](Here::hold), for as long as the thread is there: that holds the span open.
    pub(crate) fn borrow() -> Option<Here> {
        dispatcher::get_default(|subscriber| {
            let span = subscriber.current_span().id().cloned();
            if span.is_none() && subscriber.is::<NoSubscriber>() {
                return None;
            }
            Some(Here { subscriber: subscriber.clone(), span, held: false })
        })
    }

    #[cold]
    fn let_go(&mut self) {
        if let Some(span) = self.span.take() {
            end_theirs(|| _ = self.subscriber.try_close(span));
        }
    }

    /// Puts the thread there, or where no subscriber and no span is known to it; both until the guard is dropped.
    pub(crate) fn enter(state: Option<&Here>) -> Moved {
        let hidden = dispatcher::get_default(|subscriber| {
            let innermost = || subscriber.current_span().id().cloned();
            let leave = |id: &Id| subscriber.exit(id);
            let hidden: Vec<Id> =
                std::iter::from_fn(innermost).inspect(leave).take(DEEPEST).collect();
            (!hidden.is_empty()).then(|| (subscriber.clone(), hidden))
        });
        let mut moved = Moved { entered: None, default: None, hidden };
        if let Some(Here { subscriber, span, .. }) = state {
            moved.default = Some(dispatcher::set_default(subscriber));
            if let Some(span) = span {
                subscriber.enter(span);
                moved.entered = Some((subscriber.clone(), span.clone()));
            }
        }
        moved
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        if let Some((subscriber, span)) = self.entered.take() {
            subscriber.exit(&span);
        }
        self.default = None;
        if let Some((subscriber, spans)) = self.hidden.take() {
            spans.iter().rev().for_each(|span| subscriber.enter(span));
        }
    }
}
