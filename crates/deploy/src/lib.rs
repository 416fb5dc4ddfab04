//! The Kubernetes objects that run a Gateway's proxies: pure functions from what a Gateway asks for to manifests.
