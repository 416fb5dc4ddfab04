//! Manifests for the tests of this crate.

use crate::files::{FileKey, FileProblem, Manifests, Update};

/// A class, a Gateway `web/edge` with a listener on `port`, a Service with an endpoint and a route to it.
pub(crate) fn world(port: u16) -> String {
    format!(
        "\
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {{name: portcullis}}
spec: {{controllerName: portcullis.dev/gateway-controller}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: edge, namespace: web}}
spec:
  gatewayClassName: portcullis
  listeners: [{{name: http, port: {port}, protocol: HTTP}}]
---
apiVersion: v1
kind: Service
metadata: {{name: app, namespace: web}}
spec: {{ports: [{{port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: app-1, namespace: web, labels: {{kubernetes.io/service-name: app}}}}
addressType: IPv4
ports: [{{name: \"\", port: 8080}}]
endpoints: [{{addresses: [127.0.0.1]}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: app, namespace: web}}
spec:
  parentRefs: [{{name: edge}}]
  rules: [{{backendRefs: [{{name: app, port: 80}}]}}]
"
    )
}

/// Files in memory.
#[derive(Default)]
pub(crate) struct Memory(Manifests);

impl Memory {
    /// What changes when a file has this text.
    pub(crate) fn write(&mut self, name: &str, text: &str) -> Update {
        self.0.load(FileKey::new(0, name.as_ref()), text.as_bytes());
        self.update()
    }

    /// What changes when a file is removed.
    pub(crate) fn remove(&mut self, name: &str) -> Update {
        self.0.remove(&FileKey::new(0, name.as_ref()));
        self.update()
    }

    fn update(&mut self) -> Update {
        let problems: Vec<FileProblem> = self.0.problems();
        Update {
            changes: self.0.take_changes(),
            problems: problems.into(),
            broken_files: self.0.broken_files(),
            files: self.0.files().count(),
        }
    }
}
