use std::ffi::{c_char, CStr, CString};
use std::fmt;
use std::mem::size_of;

use takt_sys as sys;

pub type Result<T> = std::result::Result<T, Error>;

/// Nothing has happened. The text names what is wrong, one fault a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: i32,
    text: String,
}

impl Error {
    /// As in the C interface, such as `takt_sys::TAKT_E_INVALID`. Later versions may have others.
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
/// NULL, or a text that ends with a zero and stays as long as `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> &'a str {
    if text.is_null() {
        return "";
    }
    // SAFETY: the caller's.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}

pub(crate) fn check(status: sys::takt_status, call: &str) -> Result<()> {
    if status == sys::TAKT_OK as i32 {
        return Ok(());
    }
    // SAFETY: names of statuses stay as long as the library is loaded.
    let name = unsafe { text(sys::takt_status_name(status)) };
    Err(Error { status, text: format!("{call}: {name}") })
}

pub(crate) fn spec(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::invalid(format!("{text:?} has a zero inside")))
}

/// Calls a function that creates a handle and says what is wrong in a `takt_error`.
pub(crate) fn create(call: impl FnOnce(*mut sys::takt_error) -> sys::takt_status) -> Result<()> {
    // SAFETY: plain data, for which zeros are values.
    let mut error: sys::takt_error = unsafe { std::mem::zeroed() };
    // SAFETY: the size is that of the struct.
    unsafe { sys::takt_error_init(&mut error, size_of::<sys::takt_error>()) };
    let status = call(&mut error);
    check(status, "create").map_err(|short| {
        // SAFETY: the library ends the text with a zero, and it is copied.
        let told = unsafe { text(error.text.as_ptr()) };
        if told.is_empty() {
            short
        } else {
            Error { status, text: told.to_string() }
        }
    })
}

/// A struct of the interface with takt's defaults.
macro_rules! initialised {
    ($kind:ident, $init:ident) => {{
        // SAFETY: plain data, for which zeros are values.
        let mut it: takt_sys::$kind = unsafe { std::mem::zeroed() };
        // SAFETY: the size is that of the struct.
        unsafe { takt_sys::$init(&mut it, std::mem::size_of::<takt_sys::$kind>()) };
        it
    }};
}
pub(crate) use initialised;
