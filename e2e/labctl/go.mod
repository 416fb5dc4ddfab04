module portcullis.dev/e2e/labctl

go 1.26.0
