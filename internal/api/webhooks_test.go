package api

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
)

// The document has the fields of what webhooks are told, and no others.
func TestDocumentHasTheWebhooks(t *testing.T) {
	t.Parallel()
	doc, err := load()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1, 0)
	for name, report := range map[string]any{
		"DeadToken":    ledger.DeadToken{Since: at, At: at},
		"OutcomeEvent": ledger.OutcomeEvent{Category: "c", Reason: "r", Into: "i", At: at, Targets: []ledger.TargetOutcome{}},
	} {
		text, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		properties := doc.Components.Schemas[name].Value.Properties
		for field := range fields {
			if properties[field] == nil {
				t.Errorf("%s: %s is missing", name, field)
			}
		}
		if len(properties) != len(fields) {
			t.Errorf("%s has %d fields, want %d", name, len(properties), len(fields))
		}
	}
}
