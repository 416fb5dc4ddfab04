package main

import (
	"strings"
	"testing"
)

// A parallel test has its result long after the suite thinks that it is over.
const log = "\x16=== RUN   TestConformance/GatewayInfrastructure\n" +
	"\x16=== PAUSE TestConformance/GatewayInfrastructure\n" +
	"\x16=== RUN   TestConformance/HTTPRouteWeight\n" +
	"    \x16--- PASS: TestConformance/HTTPRouteWeight (1.50s)\n" +
	"\x16=== RUN   TestConformance/GRPCRouteWeight\n" +
	"\x16--- SKIP: TestConformance/GRPCRouteWeight (0.00s)\n" +
	"\x16=== RUN   TestConformance/HTTPRouteRetry\n" +
	"Conformance report:\n" +
	"    --- FAIL: TestConformance/GatewayInfrastructure (60.00s)\n" +
	"        --- FAIL: TestConformance/GatewayInfrastructure/labels (60.00s)\n" +
	"            --- FAIL: TestConformance/GatewayInfrastructure/labels/on_the_Service (60.00s)\n"

func TestEachTestIsJudgedByItsOwnResult(t *testing.T) {
	outcomes := judge(strings.Split(log, "\n"))
	for test, want := range map[string]verdict{
		"GatewayInfrastructure": failed, "HTTPRouteWeight": passed, "GRPCRouteWeight": notClaimed, "HTTPRouteRetry": unfinished,
	} {
		if outcomes[test] == nil || outcomes[test].verdict != want {
			t.Errorf("%s: %v, want %s", test, outcomes[test], want)
		}
	}
	if got := cell(outcomes["GatewayInfrastructure"].failures); got != "labels/on the Service" {
		t.Errorf("subtests: %q", got)
	}
}

func TestWhatWasNeverStartedCountsAsBad(t *testing.T) {
	page, bad := render(judge(strings.Split(log, "\n")), map[string]string{"HTTPRouteRetry": "slow"})
	if list := gatewayTests(); bad != len(list)-2 {
		t.Errorf("%d of %d are bad", bad, len(list))
	}
	if !strings.Contains(page, "| HTTPRouteRetry | unfinished |  | slow |") {
		t.Error(page)
	}
}
