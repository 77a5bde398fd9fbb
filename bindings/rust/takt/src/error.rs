use std::ffi::{c_char, CStr, CString};
use std::fmt;
use std::mem::size_of;

use takt_sys as sys;

pub type Result<T> = std::result::Result<T, Error>;

/// The error of a call, which had no effect. The text has one fault per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: i32,
    text: String,
}

impl Error {
    /// Status of the C interface, such as `takt_sys::TAKT_E_INVALID`. Later versions may add others.
    pub fn status(&self) -> i32 {
        self.status
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self { status: sys::TAKT_E_INVALID as i32, text: text.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

/// # Safety
/// `text` is NULL, or a zero-terminated text that lives for `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> &'a str {
    if text.is_null() {
        return "";
    }
    // SAFETY: required of the caller.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}

pub(crate) fn check(status: sys::takt_status, call: &str) -> Result<()> {
    if status == sys::TAKT_OK as i32 {
        return Ok(());
    }
    // SAFETY: the names of statuses live as long as the library is loaded.
    let name = unsafe { text(sys::takt_status_name(status)) };
    Err(Error { status, text: format!("{call}: {name}") })
}

pub(crate) fn spec(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::invalid(format!("{text:?} contains a null character")))
}

/// Calls a function that creates a handle and reports errors in a `takt_error`.
pub(crate) fn create(call: impl FnOnce(*mut sys::takt_error) -> sys::takt_status) -> Result<()> {
    // SAFETY: plain data; all zeros is valid.
    let mut error: sys::takt_error = unsafe { std::mem::zeroed() };
    // SAFETY: the size is that of the struct.
    unsafe { sys::takt_error_init(&mut error, size_of::<sys::takt_error>()) };
    let status = call(&mut error);
    check(status, "create").map_err(|short| {
        // SAFETY: the library terminates the text with a zero, and it is copied.
        let told = unsafe { text(error.text.as_ptr()) };
        if told.is_empty() {
            short
        } else {
            Error { status, text: told.to_string() }
        }
    })
}

/// A struct of the C interface with takt's defaults.
macro_rules! initialised {
    ($kind:ident, $init:ident) => {{
        // SAFETY: plain data; all zeros is valid.
        let mut it: takt_sys::$kind = unsafe { std::mem::zeroed() };
        // SAFETY: the size is that of the struct.
        unsafe { takt_sys::$init(&mut it, std::mem::size_of::<takt_sys::$kind>()) };
        it
    }};
}
pub(crate) use initialised;
