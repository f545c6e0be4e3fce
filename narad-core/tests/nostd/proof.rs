//! Proves that narad-core needs `core` and `alloc` and nothing else.
#![no_std]

extern crate alloc;
#[cfg(feature = "control-direct")]
extern crate std;

use alloc::string::ToString;
use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;

use narad_core::ids::Name;

/// An allocator with no memory; the proof is about linking, not about running.
struct Nothing;

// SAFETY: a null pointer is the documented answer of an allocator that cannot serve a request, and
// nothing is ever allocated that could be handed back.
unsafe impl GlobalAlloc for Nothing {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: Nothing = Nothing;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

/// Uses narad-core, so that it is linked.
///
/// Its errors are `core::error::Error` without std.
pub fn refused(text: &str) -> Option<alloc::string::String> {
    let error: &dyn core::error::Error = &Name::new(text).err()?;
    Some(error.to_string())
}
