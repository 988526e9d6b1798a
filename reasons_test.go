package pushpace_test

import (
	"go/ast"
	"slices"
	"strconv"
	"testing"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/fcm"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/push"
)

// A reasonSet is a closed set of words.
type reasonSet struct {
	title string // the set's heading in docs/reasons.md
	words []string
}

// reasonSets returns all sets.
func reasonSets() []reasonSet {
	states := append([]push.State{push.Waiting}, store.EndStates...)
	kinds := []providers.Kind{providers.Delivered, providers.DeadToken, providers.Retry, providers.Rejected, providers.Misconfigured}
	outcomes := make([]string, len(kinds))
	for i, kind := range kinds {
		outcomes[i] = kind.String()
	}
	return []reasonSet{
		{"States", textsOf(append(states, store.Malformed))},
		{"Causes of waiting", textsOf(inspect.Causes)},
		{"Outcomes of a target", outcomes},
		{"Reasons of pushpace", textsOf(providers.Reasons())},
		{"Reasons of APNs", textsOf(apns.Reasons())},
		{"Reasons of FCM", textsOf(fcm.Reasons())},
		{"Reasons of Web Push", textsOf(webpush.Reasons())},
		{"Reasons of malformed jobs", textsOf(store.MalformedReasons)},
		{"Troubles of Redis", textsOf(redisreply.Troubles)},
	}
}

func textsOf[T ~string](all []T) []string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = string(one)
	}
	return texts
}

// docs/reasons.md explains exactly the words of the sets.
func TestEachReasonIsExplained(t *testing.T) {
	t.Parallel()
	explained := map[string][]string{}
	for _, set := range words.ReasonSets {
		explained[set.Title] = slices.Sorted(slices.Values(set.Words()))
	}
	for _, set := range reasonSets() {
		if is := slices.Sorted(slices.Values(set.words)); !slices.Equal(is, explained[set.title]) {
			t.Errorf("%s: the page has\n%q, the code\n%q", set.title, explained[set.title], is)
		}
		delete(explained, set.title)
	}
	for title := range explained {
		t.Errorf("the page has %q, the code does not", title)
	}
}

// Each constant of the sets' types is in one of the sets.
func TestEachReasonIsListed(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{"": true}
	for _, set := range reasonSets() {
		for _, word := range set.words {
			listed[word] = true
		}
	}
	types := []string{"Reason", "State", "MalformedReason", "Cause", "Trouble"}
	seen := 0
	for _, folder := range []string{"push", "providers", "providers/apns", "providers/fcm/internal/wire", "providers/webpush", "worker/control", "internal/base/redisreply"} {
		for path, file := range parsed(t, folder) {
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.ValueSpec)
				if !ok || len(spec.Values) != 1 || !slices.Contains(types, nameOf(spec.Type)) {
					return true
				}
				if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
					word, _ := strconv.Unquote(literal.Value)
					if seen++; !listed[word] {
						t.Errorf("%s: %s is in no set", path, word)
					}
				}
				return true
			})
		}
	}
	if seen < 80 {
		t.Errorf("only %d constants are found", seen)
	}
}

// nameOf returns a type's name without its package.
func nameOf(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.SelectorExpr:
		return t.Sel.Name
	}
	return ""
}
