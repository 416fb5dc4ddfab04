package main

import (
	"fmt"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/gateway-api/conformance/tests"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"
)

var profiles = []suite.ConformanceProfile{
	suite.GatewayHTTPConformanceProfile,
	suite.GatewayGRPCConformanceProfile,
	suite.GatewayTLSConformanceProfile,
	suite.GatewayTCPConformanceProfile,
	suite.GatewayUDPConformanceProfile,
}

const head = `# Conformance

What the official conformance suite of Gateway API v1.6.1, unmodified, says of Portcullis on a real Kubernetes, test by
test. ` + "`make conformance`" + ` runs it and writes this page; the features that are claimed are those that the GatewayClass
publishes in its status. Tests of service meshes are left out.

`

// render gives the page, and how many tests neither passed nor were left out.
func render(outcomes map[string]*outcome, reasons map[string]string) (string, int) {
	var page strings.Builder
	page.WriteString(head)
	page.WriteString("| profile | core passed | extended passed | failed | not claimed |\n|---|---|---|---|---|\n")
	for _, profile := range profiles {
		page.WriteString(summary(profile, outcomes))
	}

	list := gatewayTests()
	bad := 0
	var failures, all strings.Builder
	for _, test := range list {
		o := outcomeOf(test, outcomes)
		fmt.Fprintf(&all, "| %s | %s | %s | %s |\n", test.ShortName, names(test.Features), o.verdict, o.seconds)
		if o.verdict == passed || o.verdict == notClaimed {
			continue
		}
		bad++
		reason := reasons[test.ShortName]
		if reason == "" {
			reason = "unknown"
		}
		fmt.Fprintf(&failures, "| %s | %s | %s | %s |\n", test.ShortName, o.verdict, cell(o.failures), reason)
	}
	if bad > 0 {
		page.WriteString("\n## What does not pass, and why\n\n| test | | subtests that fail | why |\n|---|---|---|---|\n")
		page.WriteString(failures.String())
	}
	page.WriteString("\n## All tests\n\n| test | features | | seconds |\n|---|---|---|---|\n")
	page.WriteString(all.String())
	return page.String(), bad
}

// summary counts the tests of a profile. One that needs nothing but what the profile requires is a core test. The
// profile is claimed if a test was run for what no other profile requires, its kind of route.
func summary(profile suite.ConformanceProfile, outcomes map[string]*outcome) string {
	var core, corePassed, extended, extendedPassed, bad, left int
	claimed := false
	own := profile.CoreFeatures.Difference(sets.New(features.SupportGateway, features.SupportReferenceGrant))
	for _, test := range gatewayTests() {
		isCore := true
		belongs := true
		for _, feature := range test.Features {
			isCore = isCore && profile.CoreFeatures.Has(feature)
			belongs = belongs && (profile.CoreFeatures.Has(feature) || profile.ExtendedFeatures.Has(feature))
		}
		if !belongs {
			continue
		}
		verdict := outcomeOf(test, outcomes).verdict
		claimed = claimed || verdict != notClaimed && own.HasAny(test.Features...)
		ok := 0
		switch verdict {
		case passed:
			ok = 1
		case notClaimed:
			left++
		default:
			bad++
		}
		if isCore {
			core++
			corePassed += ok
		} else {
			extended++
			extendedPassed += ok
		}
	}
	if !claimed {
		return fmt.Sprintf("| %s, not claimed | | | | |\n", profile.Name)
	}
	return fmt.Sprintf("| %s | %d of %d | %d of %d | %d | %d |\n", profile.Name, corePassed, core, extendedPassed, extended, bad, left)
}

// gatewayTests are the tests of the suite that no mesh is needed for, by name.
func gatewayTests() []suite.ConformanceTest {
	mesh := features.SetsToNamesSet(features.MeshCoreFeatures, features.MeshExtendedFeatures)
	var list []suite.ConformanceTest
	for _, test := range tests.ConformanceTests {
		if !mesh.HasAny(test.Features...) {
			list = append(list, test)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].ShortName < list[j].ShortName })
	return list
}

func outcomeOf(test suite.ConformanceTest, outcomes map[string]*outcome) outcome {
	if o := outcomes[test.ShortName]; o != nil {
		return *o
	}
	return outcome{verdict: notRun}
}

func names(list []features.FeatureName) string {
	var names []string
	for _, name := range list {
		names = append(names, string(name))
	}
	return strings.Join(names, ", ")
}

// cell makes subtests fit a table: the ones that failed only because of another below them are left out.
func cell(failures []string) string {
	var leaves []string
	for _, failure := range failures {
		parent := false
		for _, other := range failures {
			parent = parent || strings.HasPrefix(other, failure+"/")
		}
		if !parent {
			leaves = append(leaves, strings.ReplaceAll(strings.ReplaceAll(failure, "_", " "), "|", "\\|"))
		}
	}
	const most = 4
	if len(leaves) > most {
		leaves = append(leaves[:most], fmt.Sprintf("and %d more", len(leaves)-most))
	}
	return strings.Join(leaves, "; ")
}
