//! Calls by address: any `fn(A) -> R` of the program, in another process that executes the same file.
//!
//! For each pair of argument and result there is a constant [`Entry`] in the program's data, with the code that decodes an
//! argument, calls, and encodes the result. A call names two offsets from where the program was loaded: that of the entry, and
//! that of the function.
//!
//! # Invariants
//!
//! - **A1** Both sides execute one file: a worker says which build it is of before it is given a call, and the driver sends
//!   none to another.
//! - **A2** A worker calls nothing unless the entry's offset is aligned and lies in a data segment of its program, what is
//!   there begins with the magic, goes on with two functions and has the name that the call gives, and the function's offset
//!   lies in a text segment.
//! - **A3** An offset of an entry is only made of the entry of `A` and `R`, together with that of a function of that very
//!   type: see [`Call::new`].

use std::any::type_name;
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

use crate::arg::{Arg, decode, encode_after};
use crate::error::RemoteError;
use crate::here::run_part;
use crate::image::Image;

const _: () =
    assert!(size_of::<Entry>() == 32 && size_of::<usize>() == 8, "64 bits, and no padding");

const MAGIC: [u64; 2] = [0x7261_6464_6c65_2d72, 0x9f3c_51d8_62e7_0ba4];

/// Given a function, its encoded argument, and what to append the encoded result to.
type Trampoline = unsafe fn(*const (), &[u8], Vec<u8>) -> Result<Vec<u8>, RemoteError>;

/// How calls of one type are made.
#[repr(C)]
pub(crate) struct Entry {
    magic: [u64; 2],
    name: fn() -> &'static str,
    /// Its first argument is a function of the entry's type.
    call: Trampoline,
}

struct One<A, R>(PhantomData<fn(A) -> R>);
struct Several<A, R>(PhantomData<fn(A) -> R>);

impl<A: Arg, R: Arg> One<A, R> {
    const ENTRY: &'static Entry =
        &Entry { magic: MAGIC, name: type_name::<fn(A) -> R>, call: one::<A, R> };
}

impl<A: Arg, R: Arg> Several<A, R> {
    const ENTRY: &'static Entry =
        &Entry { magic: MAGIC, name: type_name::<fn(&[A]) -> R>, call: several::<A, R> };
}

/// # Safety
///
/// `f` is a `fn(A) -> R`.
unsafe fn one<A: Arg, R: Arg>(
    f: *const (),
    args: &[u8],
    result: Vec<u8>,
) -> Result<Vec<u8>, RemoteError> {
    // SAFETY: contract.
    let f = unsafe { std::mem::transmute::<*const (), fn(A) -> R>(f) };
    encode_after(result, &f(decode(args)?))
}

/// # Safety
///
/// `f` is a `fn(A) -> R`.
unsafe fn several<A: Arg, R: Arg>(
    f: *const (),
    args: &[u8],
    result: Vec<u8>,
) -> Result<Vec<u8>, RemoteError> {
    // SAFETY: contract.
    let f = unsafe { std::mem::transmute::<*const (), fn(A) -> R>(f) };
    encode_after(result, &run_part(f, decode(args)?))
}

/// What is called, as it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Call {
    entry: i64,
    f: i64,
    name: u64,
}

impl Call {
    pub(crate) fn one<A: Arg, R: Arg>(f: fn(A) -> R) -> Result<Call, RemoteError> {
        Call::new(One::<A, R>::ENTRY, f)
    }

    /// For items in a row: see [`Part`](crate::here::Part).
    pub(crate) fn several<A: Arg, R: Arg>(f: fn(A) -> R) -> Result<Call, RemoteError> {
        Call::new(Several::<A, R>::ENTRY, f)
    }

    /// A3: `entry` is one of `A` and `R`.
    fn new<A: Arg, R: Arg>(entry: &'static Entry, f: fn(A) -> R) -> Result<Call, RemoteError> {
        let image = Image::get();
        let refused =
            || RemoteError::NotInProgram(format!("a function {}", type_name::<fn(A) -> R>()));
        let address = std::ptr::from_ref(entry).addr();
        Ok(Call {
            entry: image.data_offset(address, size_of::<Entry>()).ok_or_else(refused)?,
            f: image.text_offset(f as *const () as usize).ok_or_else(refused)?,
            name: hash((entry.name)()),
        })
    }

    /// Calls it with encoded arguments; what it returns is appended to `result`.
    pub(crate) fn run(self, args: &[u8], result: Vec<u8>) -> Result<Vec<u8>, RemoteError> {
        let image = Image::get();
        let refused = |what: &str| RemoteError::Protocol(format!("a call names {what}"));
        let entry = image
            .data_at(self.entry, size_of::<Entry>())
            .filter(|address| address % align_of::<Entry>() == 0)
            .ok_or_else(|| refused("an entry outside of the program"))?;
        // SAFETY: aligned, and within a segment that may be read; entries are never written.
        let words = unsafe { (entry as *const [usize; size_of::<Entry>() / 8]).read() };
        let functions = words[2..].iter().all(|&word| image.is_text(word));
        if [words[0] as u64, words[1] as u64] != MAGIC || !functions {
            return Err(refused("an entry that is none"));
        }
        // SAFETY: A2: what begins so, and goes on with functions, is an entry.
        let entry = unsafe { &*(entry as *const Entry) };
        if hash((entry.name)()) != self.name {
            return Err(refused("an entry of another type"));
        }
        let f = image.text_at(self.f).ok_or_else(|| refused("no function of the program"))?;
        // SAFETY: A1 and A3: the driver made the call of a function of the entry's type.
        unsafe { (entry.call)(f as *const (), args, result) }
    }
}

/// How far a hook is from the program's base.
pub(crate) fn hook_offset(hook: fn()) -> Result<i64, RemoteError> {
    let refused = || RemoteError::NotInProgram("a hook".to_owned());
    Image::get().text_offset(hook as *const () as usize).ok_or_else(refused)
}

/// Calls a hook by its offset.
pub(crate) fn run_hook(offset: i64) -> Result<(), RemoteError> {
    let refused = || RemoteError::Protocol("there is no such hook in the program".to_owned());
    let hook = Image::get().text_at(offset).ok_or_else(refused)? as *const ();
    // SAFETY: A1 and A3: the driver made the offset of one, by `hook_offset`.
    let hook = unsafe { std::mem::transmute::<*const (), fn()>(hook) };
    hook();
    Ok(())
}

/// FNV-1a.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arg::encode;
    use proptest::prelude::*;

    struct Loom(u32);

    impl Loom {
        fn width(threads: u32) -> u32 {
            Loom(threads * 2).0
        }
    }

    fn twice<T: Clone>(value: T) -> (T, T) {
        (value.clone(), value)
    }

    fn called<A: Arg, R: Arg>(f: fn(A) -> R, args: &A) -> R {
        let result = Call::one(f).unwrap().run(&encode(args).unwrap(), Vec::new()).unwrap();
        decode(&result).unwrap()
    }

    #[test]
    fn functions_methods_instances_and_closures_are_called() {
        assert_eq!(called(u32::count_ones, &7), 3);
        assert_eq!(called(Loom::width, &4), 8);
        assert_eq!(called(twice::<String>, &"a".into()), ("a".into(), "a".into()));
        assert_eq!(called(|x: i32| x + 1, &41), 42);
        assert_eq!(called(|(): ()| (), &()), ());
    }

    #[test]
    fn functions_of_libraries_are_refused() {
        extern "C" fn never(_: i32) {}
        let _ = never;
        // SAFETY: never called; it is the address that counts.
        let foreign =
            unsafe { std::mem::transmute::<*const (), fn(i32) -> i32>(libc::abs as *const ()) };
        assert!(matches!(Call::one(foreign), Err(RemoteError::NotInProgram(_))));
    }

    #[test]
    fn what_does_not_decode_names_its_type() {
        let call = Call::one(str_len).unwrap();
        let error = call.run(&[0xff], Vec::new()).unwrap_err();
        assert!(error.to_string().contains("alloc::string::String"), "{error}");
        let error = call.run(&[1, b'a', 7], Vec::new()).unwrap_err();
        assert!(error.to_string().contains("1 bytes are left over"), "{error}");
    }

    fn str_len(text: String) -> usize {
        text.len()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Any damage to one of the three is found, but that which leads to another function of the program's text.
        #[test]
        fn damaged_calls_are_refused(by in any::<i64>().prop_filter("damage", |by| *by != 0), near: bool) {
            let good = Call::one(str_len).unwrap();
            let by = if near { by % 4096 } else { by };
            prop_assume!(by != 0);
            let args = encode(&"ab".to_owned()).unwrap();
            let renamed = Call { name: good.name.wrapping_add(by as u64), ..good };
            prop_assert!(renamed.run(&args, Vec::new()).is_err());
            let moved = Call { entry: good.entry.wrapping_add(by), ..good };
            prop_assert!(moved.run(&args, Vec::new()).is_err());
            let image = Image::get();
            if image.text_at(good.f.wrapping_add(by)).is_none() {
                let elsewhere = Call { f: good.f.wrapping_add(by), ..good };
                prop_assert!(elsewhere.run(&args, Vec::new()).is_err());
            }
        }
    }
}
