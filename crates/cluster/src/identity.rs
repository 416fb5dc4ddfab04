//! Who a proxy is, and how it knows that this is the control plane.
