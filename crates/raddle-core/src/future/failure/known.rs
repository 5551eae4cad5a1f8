//! What is known of a type that is not known to be an error.

use std::any::TypeId;
use std::error::Error;
use std::iter::FusedIterator;
use std::marker::PhantomData;

trait Name {
    fn id(&self) -> TypeId
    where
        Self: 'static;
}

impl<T> Name for PhantomData<T> {
    fn id(&self) -> TypeId
    where
        Self: 'static,
    {
        TypeId::of::<T>()
    }
}

/// The type's name, whatever lifetimes it has: types that differ in those have the same.
#[inline]
pub(super) fn id_of<T>() -> TypeId {
    let name: &dyn Name = &PhantomData::<T>;
    // SAFETY: there is nothing of the type in it, and the table is the same for all lifetimes.
    let name = unsafe { std::mem::transmute::<&dyn Name, &'static (dyn Name + 'static)>(name) };
    name.id()
}

/// Whether the type is an error, so that a box that is made from one has just that in it: Rust allows no other
/// conversion from an error into a box.
///
/// `Fuse` asks an iterator again after its end only if that says that it is fused: its promise, so a type that is no
/// error is never taken for one. (That it does ask is not promised. Should it cease to, errors of no type are known,
/// which a test finds.)
#[inline]
pub(super) fn is_error<T>() -> bool {
    struct Probe<T>(bool, PhantomData<fn() -> T>);

    impl<T> Iterator for Probe<T> {
        type Item = ();

        fn next(&mut self) -> Option<()> {
            std::mem::replace(&mut self.0, true).then_some(())
        }
    }

    impl<T: Error + Send + Sync + 'static> FusedIterator for Probe<T> {}

    let mut probe = Probe::<T>(false, PhantomData).fuse();
    probe.next().is_none() && probe.next().is_some()
}
