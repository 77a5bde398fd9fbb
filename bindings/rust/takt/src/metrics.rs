use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::time::Duration;

use takt_sys as sys;

pub use sys::{takt_saturation as Saturation, takt_transition as Transition};

use crate::error::{check, create, initialised, spec, Error, Result};
use crate::router::Router;

/// The field of a request that is its class in metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum ClassBy {
    #[default]
    Priority = sys::TAKT_CLASS_BY_PRIORITY,
    Tenant = sys::TAKT_CLASS_BY_TENANT,
    Agent = sys::TAKT_CLASS_BY_AGENT,
    Adapter = sys::TAKT_CLASS_BY_ADAPTER,
}

/// Options of a router's metrics. The defaults are takt's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricsOptions {
    pub by: ClassBy,
    /// Maximum label values, 1 to 64; later values share "other".
    pub max_classes: i32,
    /// Maximum living requests that are measured.
    pub max_requests: i32,
    /// Time constant of the drain rate and the late share.
    pub window: Duration,
}

impl Default for MetricsOptions {
    fn default() -> Self {
        let it = initialised!(takt_metrics_options, takt_metrics_options_init);
        Self {
            by: ClassBy::Priority,
            max_classes: it.max_classes,
            max_requests: it.max_requests,
            window: Duration::from_secs_f64(it.window_s),
        }
    }
}

type Observer = dyn FnMut(&Transition) + Send;

/// The observer of a router, at an address that C knows.
pub(crate) struct Watched(*mut Box<Observer>);

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: the pointer is from Box::into_raw, and the router no longer has it.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

unsafe extern "C" fn moved(context: *mut c_void, transition: *const Transition) {
    // SAFETY: the context is that of a Watched, which outlives its use by the router; a router makes one call at a time.
    unsafe { (*context.cast::<Box<Observer>>())(&*transition) }
}

/// Metrics: docs/reference/metrics.md.
impl Router {
    /// Measures all requests that arrive from now on, and forgets earlier figures.
    ///
    /// ```
    /// use takt::{ClassBy, MetricsOptions, Request, Router};
    /// let mut router = Router::new("fcfs", "least_loaded")?;
    /// router.measure(&MetricsOptions { by: ClassBy::Tenant, ..MetricsOptions::default() })?;
    /// router.name_class(7, "seven")?;
    /// router.arrived(&Request::new(1).prompt_tokens(100).tenant(7u64), 0)?;
    /// let text = router.metrics(0, "takt", Some("my-model"))?;
    /// assert!(text.contains(r#"takt_requests_arrived_total{model_name="my-model",tenant="seven"} 1"#));
    /// # Ok::<(), takt::Error>(())
    /// ```
    pub fn measure(&mut self, options: &MetricsOptions) -> Result<()> {
        let mut raw = initialised!(takt_metrics_options, takt_metrics_options_init);
        (raw.by, raw.window_s) = (options.by as u32, options.window.as_secs_f64());
        (raw.max_classes, raw.max_requests) = (options.max_classes, options.max_requests);
        // SAFETY: the handle is alive; the options are read only during the call.
        create(|error| unsafe { sys::takt_router_measure(self.handle.as_ptr(), &raw, error) })
    }

    /// Forgets all figures. `metrics` then has only counters and gauges.
    pub fn stop_measuring(&mut self) -> Result<()> {
        // SAFETY: the handle is alive; NULL stops.
        check(unsafe { sys::takt_router_measure(self.handle.as_ptr(), null(), null_mut()) }, "stop_measuring")
    }

    /// Names the class of requests with this priority (or tenant, ...), before its first request. Fails if nothing is
    /// measured, the class has a label, or no label is free.
    pub fn name_class(&mut self, key: i64, name: &str) -> Result<()> {
        let name = spec(name)?;
        // SAFETY: the text is zero-terminated, and read only during the call.
        create(|error| unsafe { sys::takt_router_name_class(self.handle.as_ptr(), key, name.as_ptr(), error) })
    }

    /// Returns the load of the queue relative to the rate at which it becomes shorter. Fails if nothing is measured.
    pub fn saturation(&mut self, now: i64) -> Result<Saturation> {
        // SAFETY: plain data; all zeros is valid.
        let mut it: Saturation = unsafe { std::mem::zeroed() };
        it.struct_size = std::mem::size_of::<Saturation>() as u32;
        // SAFETY: the handle is alive.
        check(unsafe { sys::takt_router_saturation(self.handle.as_ptr(), now, &mut it) }, "saturation")?;
        Ok(it)
    }

    /// Returns all metrics in Prometheus' text format. `names` is "takt", or the names that another program has for the
    /// same metrics, such as "llm_d". `model` is the label model_name of every sample. Without `measure`, the text has
    /// only counters and gauges.
    pub fn metrics(&mut self, now: i64, names: &str, model: Option<&str>) -> Result<&str> {
        let (style, label) = (spec(names)?, model.map(spec).transpose()?);
        let label = label.as_ref().map_or(null(), |it| it.as_ptr());
        let (mut text, mut n) = (null(), 0);
        let router = self.handle.as_ptr();
        // SAFETY: the texts are zero-terminated, and read only during the call.
        let status = unsafe { sys::takt_router_metrics(router, now, style.as_ptr(), label, &mut text, &mut n) };
        if status == sys::TAKT_E_INVALID as i32 {
            return Err(Error::invalid(format!("names is {names:?}: must be a column of the page of metrics")));
        }
        check(status, "metrics")?;
        // SAFETY: the text has n bytes, valid until the router's next call, which the borrow prevents.
        let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), n) };
        std::str::from_utf8(bytes).map_err(|_| Error::invalid("metrics: the text is not UTF-8"))
    }

    /// Calls `observer` for each transition, during the call that makes it. `takt_sys` has the numbers of statuses and
    /// reasons. A panic of the observer ends the process.
    pub fn watch(&mut self, observer: impl FnMut(&Transition) + Send + 'static) -> Result<()> {
        let watched = Watched(Box::into_raw(Box::new(Box::new(observer))));
        let raw = sys::takt_observer {
            struct_size: std::mem::size_of::<sys::takt_observer>() as u32,
            reserved: 0,
            moved: Some(moved),
            context: watched.0.cast(),
        };
        // SAFETY: the handle is alive. The observer lives until the next one is set, or until after the handle.
        check(unsafe { sys::takt_router_watch(self.handle.as_ptr(), &raw) }, "watch")?;
        self.watched = Some(watched);
        Ok(())
    }

    /// Removes the observer.
    pub fn unwatch(&mut self) -> Result<()> {
        // SAFETY: the handle is alive; NULL removes the observer.
        check(unsafe { sys::takt_router_watch(self.handle.as_ptr(), null()) }, "unwatch")?;
        self.watched = None;
        Ok(())
    }
}
