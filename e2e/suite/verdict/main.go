// verdict judges a run of the conformance suite: verdict LOG REASONS prints a page of Markdown and fails if a test did.
//
// It goes by the result of each test, not by the report that the suite can write: that is written when the tests that
// run in parallel have only been paused, and counts those as passed.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: verdict LOG REASONS")
		os.Exit(2)
	}
	lines, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	reasons, err := readReasons(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	outcomes := judge(lines)
	page, failed := render(outcomes, reasons)
	fmt.Print(page)
	if failed > 0 {
		os.Exit(1)
	}
}

func read(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines []string
	scanner := bufio.NewScanner(file)
	// A test may print a whole object in one line.
	scanner.Buffer(nil, 64<<20)
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	return lines, scanner.Err()
}

// readReasons reads lines of `TEST: why it fails`. Those that start with # say something else.
func readReasons(path string) (map[string]string, error) {
	lines, err := read(path)
	reasons := map[string]string{}
	for _, line := range lines {
		if test, reason, found := strings.Cut(line, ":"); found && !strings.HasPrefix(line, "#") {
			reasons[strings.TrimSpace(test)] = strings.TrimSpace(reason)
		}
	}
	return reasons, err
}
