//! Has the context of OpenTelemetry (the current span, baggage) follow tasks.
//!
//! ```console
//! $ cargo run --release -p raddle --example opentelemetry
//! ```
//!
//! With `tracing-opentelemetry` this is not needed: its spans are those of `tracing`, which follow tasks
//! with the feature `tracing`.

use opentelemetry::baggage::BaggageExt;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId};
use opentelemetry::{Context, ContextGuard, KeyValue};
use raddle::{Follow, Promise, follow, join, scope, spawn};

/// The context that this thread is in.
struct OpenTelemetry;

impl Follow for OpenTelemetry {
    type State = Context;
    type Guard = ContextGuard;

    fn capture(&self) -> Option<Context> {
        Some(Context::current())
    }

    fn enter(&self, context: Option<&Context>) -> ContextGuard {
        // Leaves the context that it replaces when it is dropped.
        context.cloned().unwrap_or_default().attach()
    }
}

/// A request as it came from elsewhere: the span that sent it, and who asked.
fn request(user: &'static str, number: u64) -> Context {
    let remote = SpanContext::new(
        TraceId::from(u128::from(number) << 64 | 1),
        SpanId::from(number),
        TraceFlags::SAMPLED,
        true,
        Default::default(),
    );
    Context::new().with_remote_span_context(remote).with_baggage([KeyValue::new("user", user)])
}

/// The span and the user that whatever is sent from here would carry.
fn outgoing() -> String {
    let context = Context::current();
    let user = context.baggage().get("user").map(|user| user.to_string());
    let span = context.span().span_context().span_id();
    format!("{} of {}", span, user.as_deref().unwrap_or("nobody"))
}

fn main() {
    follow(OpenTelemetry);

    let (promise, answered) = Promise::<()>::new();
    let (task, continuation) = {
        let _ada = request("ada", 7).attach();
        let (a, b) = join(outgoing, outgoing);
        println!("forks:          {a}, {b}");
        scope(|s| s.spawn(|_| println!("a scope's task: {}", outgoing())));
        (spawn(outgoing), answered.map(|()| outgoing()))
    };
    // Whoever runs them, and whatever else it is about.
    let _grace = request("grace", 8).attach();
    promise.set(());
    let task = task.wait().expect("it does not fail");
    let continuation = continuation.wait().expect("it does not fail");
    println!("a task:         {task}");
    println!("a continuation: {continuation}");
    println!("and here:       {}", outgoing());
    assert_eq!([&*task, &*continuation], ["0000000000000007 of ada"; 2]);
}
