package main

import (
	"regexp"
	"strings"
)

// verdict is what came of one test.
type verdict string

const (
	passed     verdict = "passed"
	failed     verdict = "failed"
	notClaimed verdict = "not claimed"
	// unfinished was started and has no result: the run was cut off.
	unfinished verdict = "unfinished"
	// notRun was not even started.
	notRun verdict = "not run"
)

// outcome of one test.
type outcome struct {
	verdict verdict
	seconds string
	// failures are the names of its subtests that failed.
	failures []string
}

var (
	started = regexp.MustCompile(`^=== RUN +TestConformance/(\w+)$`)
	result  = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): TestConformance/(\w+)(?:/(.+))? \(([\d.]+)s\)$`)
)

// judge reads the output of `go test -v`, in which byte 22 may mark the lines of the test program itself.
func judge(lines []string) map[string]*outcome {
	outcomes := map[string]*outcome{}
	of := func(test string) *outcome {
		if outcomes[test] == nil {
			outcomes[test] = &outcome{verdict: unfinished}
		}
		return outcomes[test]
	}
	for _, line := range lines {
		if marked := strings.IndexByte(line, 22); marked >= 0 {
			line = line[marked+1:]
		}
		if found := started.FindStringSubmatch(line); found != nil {
			of(found[1])
		}
		found := result.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		outcome := of(found[2])
		if subtest := found[3]; subtest != "" {
			if found[1] == "FAIL" {
				outcome.failures = append(outcome.failures, subtest)
			}
			continue
		}
		outcome.seconds = found[4]
		outcome.verdict = map[string]verdict{"PASS": passed, "FAIL": failed, "SKIP": notClaimed}[found[1]]
	}
	return outcomes
}
