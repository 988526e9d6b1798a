package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/pushpace/pushpace/internal/api/problems"
	"github.com/pushpace/pushpace/internal/telemetry/health"
	"github.com/pushpace/pushpace/push"
)

var load = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

// A match is a writer into which the handlers of matching write the route.
type match struct {
	http.ResponseWriter
	route  *routers.Route
	params map[string]string
}

// matching finds the document's operation for a request. Its handlers write into a match.
var matching = sync.OnceValues(func() (*http.ServeMux, error) {
	doc, err := load()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			mux.HandleFunc(method+" "+path, func(w http.ResponseWriter, r *http.Request) {
				m := w.(*match)
				m.route = &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: operation}
				m.params = map[string]string{}
				for _, p := range operation.Parameters {
					if p.Value.In == openapi3.ParameterInPath {
						m.params[p.Value.Name] = r.PathValue(p.Value.Name)
					}
				}
			})
		}
	}
	return mux, nil
})

// conforms checks the answer, and the request unless it was refused, against the
// document.
func conforms(req *http.Request, answer *exchange) error {
	mux, err := matching()
	if err != nil {
		return err
	}
	m := &match{ResponseWriter: httptest.NewRecorder()}
	asked, body := req.Clone(context.Background()), bytes.Buffer{}
	if _, err := body.ReadFrom(req.Body); err != nil {
		return err
	}
	req.Body = io.NopCloser(&body)
	if asked.URL.Path == "/v1/notifications" && bytes.HasPrefix(bytes.TrimLeft(body.Bytes(), " \t\r\n"), []byte("[")) {
		asked.URL.Path += ":batch" // the document has arrays at this path
	}
	mux.ServeHTTP(m, asked)
	if m.route == nil {
		if answer.StatusCode != http.StatusNotFound && answer.StatusCode != http.StatusMethodNotAllowed {
			return errors.New("the document does not have this route")
		}
		return nil
	}
	route, params := m.route, m.params
	options := &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, MultiError: true, IncludeResponseStatus: true}
	input := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: options}
	partly := strings.Contains(answer.text, `"status":400`) // an item of a batch was refused
	if answer.StatusCode < 400 && !partly {
		if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
			return fmt.Errorf("the request: %w", err)
		}
	}
	if req.Method == http.MethodHead || answer.StatusCode == http.StatusMethodNotAllowed {
		return nil
	}
	answered := &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: answer.StatusCode, Header: answer.Header, Options: options}
	answered.SetBodyBytes([]byte(answer.text))
	if err := openapi3filter.ValidateResponse(context.Background(), answered); err != nil {
		return fmt.Errorf("the answer: %w", err)
	}
	return nil
}

// The document is served, and has every route and no other.
func TestDocumentHasTheRoutes(t *testing.T) {
	t.Parallel()
	if got := newRig(t).do(http.StatusOK, "", "GET", "/openapi.json", ""); got.text != string(document) {
		t.Error("the served document differs from the file")
	}
	doc, err := load()
	must(t, err)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("version %s", doc.OpenAPI)
	}
	described, routed := []string(nil), []string{"GET /healthz", "GET /readyz"} // package health's
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			described = append(described, method+" "+path)
			for _, r := range routes {
				if r.method != method || r.path != path {
					continue
				}
				if open := operation.Security != nil && len(*operation.Security) == 0; open != (r.action == nil) {
					t.Errorf("%s %s: needs no token by the document: %t", method, path, open)
				}
				if limited := operation.Responses.Value("429") != nil; limited != (r.action != nil) {
					t.Errorf("%s %s: is answered by 429 by the document: %t", method, path, limited)
				}
				var roles []string
				for _, role := range rolesOf(r) {
					roles = append(roles, string(role))
				}
				if want := "Roles: " + strings.Join(roles, ", ") + "."; r.action != nil && !strings.HasSuffix(operation.Description, want) {
					t.Errorf("%s %s: want %q in the description", method, path, want)
				}
			}
		}
	}
	for _, r := range routes {
		routed = append(routed, r.method+" "+r.path)
	}
	slices.Sort(described)
	slices.Sort(routed)
	if !slices.Equal(described, routed) {
		t.Errorf("described\n%q, routed\n%q", described, routed)
	}
}

// The document lists the codes of problems.
func TestDocumentHasTheCodes(t *testing.T) {
	t.Parallel()
	doc, err := load()
	must(t, err)
	var listed []string
	for _, code := range doc.Components.Schemas["Problem"].Value.Properties["code"].Value.Enum {
		listed = append(listed, code.(string))
	}
	if want := problems.Codes(); !slices.Equal(listed, want) {
		t.Errorf("the document has %q, the table %q", listed, want)
	}
}

// The document lists the names of the checks of readiness, and of an overview's parts.
func TestDocumentHasTheNames(t *testing.T) {
	t.Parallel()
	doc, err := load()
	must(t, err)
	for _, of := range []struct{ schema, list, field, file, name string }{
		{"Readiness", "checks", "name", "../app/readiness.go", `\bName: "(\w+)"`},
		{"Overview", "unread", "part", "../operate/unread.go", `\bPart = "(\w+)"`},
	} {
		code, err := os.ReadFile(of.file)
		must(t, err)
		var listed, want []string
		for _, name := range doc.Components.Schemas[of.schema].Value.Properties[of.list].Value.Items.Value.Properties[of.field].Value.Enum {
			listed = append(listed, name.(string))
		}
		for _, m := range regexp.MustCompile(of.name).FindAllStringSubmatch(string(code), -1) {
			want = append(want, m[1])
		}
		slices.Sort(listed)
		slices.Sort(want)
		if !slices.Equal(listed, want) {
			t.Errorf("%s: the document has %q, %s %q", of.schema, listed, of.file, want)
		}
	}
}

// The document's notification is push/notification.schema.json.
func TestDocumentHasTheNotification(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../push/notification.schema.json")
	must(t, err)
	names := map[string]string{"target": "Target", "keys": "Keys", "digest": "Digest"}
	for def, name := range names {
		text = bytes.ReplaceAll(text, []byte("#/$defs/"+def), []byte("#/components/schemas/"+name))
	}
	var want map[string]any
	must(t, json.Unmarshal(text, &want))
	defs := want["$defs"].(map[string]any)
	maps.DeleteFunc(want, func(name string, _ any) bool { return strings.HasPrefix(name, "$") })
	var doc struct {
		Components struct{ Schemas map[string]any }
	}
	must(t, json.Unmarshal(document, &doc))
	wants := map[string]any{"Notification": want}
	for def, name := range names {
		wants[name] = defs[def]
	}
	for name, want := range wants {
		got, _ := json.Marshal(doc.Components.Schemas[name])
		wanted, _ := json.Marshal(want)
		if !bytes.Equal(got, wanted) {
			t.Errorf("%s: the document has\n%s, want\n%s", name, got, wanted)
		}
	}
}

// A target has a token, or a FID on FCM.
func TestDocumentedTargetHasTokenOrFID(t *testing.T) {
	t.Parallel()
	doc, err := load()
	must(t, err)
	for text, want := range map[string]bool{
		`{"platform":"apns","token":"00"}`:                                    true,
		`{"platform":"fcm","token":"t"}`:                                      true,
		`{"platform":"fcm","fid":"f"}`:                                        true,
		`{"platform":"webpush","token":"t","keys":{"p256dh":"A","auth":"A"}}`: true,
		`{"platform":"fcm"}`:                                                  false,
		`{"platform":"fcm","token":"t","fid":"f"}`:                            false,
		`{"platform":"apns","fid":"f"}`:                                       false,
		`{"platform":"apns","token":"00","fid":"f"}`:                          false,
		`{"platform":"webpush","keys":{"p256dh":"A","auth":"A"}}`:             false,
		`{"platform":"webpush","fid":"f","keys":{"p256dh":"A","auth":"A"}}`:   false,
	} {
		var target any
		must(t, json.Unmarshal([]byte(text), &target))
		if err := doc.Components.Schemas["Target"].Value.VisitJSON(target); (err == nil) != want {
			t.Errorf("%s is valid: %t, want %t (%v)", text, err == nil, want, err)
		}
	}
}

func TestDocumentHasTheProbes(t *testing.T) {
	t.Parallel()
	h := health.New(health.Check{Name: "redis", Probe: func(context.Context) string { return "" }})
	ask := func(path string, want int) {
		t.Helper()
		req, recorder := httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
		h.ServeHTTP(recorder, req)
		answer := &exchange{recorder.Result(), recorder.Body.String(), t}
		if err := conforms(req, answer); err != nil || answer.StatusCode != want {
			t.Errorf("%s: %d, want %d: %v\n%s", path, answer.StatusCode, want, err, answer.text)
		}
	}
	ask("/healthz", http.StatusOK)
	ask("/readyz", http.StatusServiceUnavailable) // the process is starting
	h.Started()
	ask("/readyz", http.StatusOK)
	h = health.New(health.Check{Name: "redis", Probe: func(context.Context) string { return "does not answer" }})
	h.Started()
	ask("/readyz", http.StatusServiceUnavailable)
}

// Every schema has a type, every operation a tag, and every notification an example, for
// generators.
func TestDocumentSuitsGenerators(t *testing.T) {
	t.Parallel()
	doc, err := load()
	must(t, err)
	var tags []string
	for _, tag := range doc.Tags {
		tags = append(tags, tag.Name)
	}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			if len(operation.Tags) != 1 || !slices.Contains(tags, operation.Tags[0]) || operation.OperationID == "" {
				t.Errorf("%s %s: ID %q, tags %q", method, path, operation.OperationID, operation.Tags)
			}
		}
	}
	for name, example := range doc.Components.Examples {
		text, err := json.Marshal(example.Value.Value)
		must(t, err)
		items := []json.RawMessage{text}
		if text[0] == '[' {
			must(t, json.Unmarshal(text, &items))
		}
		for _, item := range items {
			n, err := push.Parse(item)
			if err == nil {
				err = n.Validate()
			}
			if err != nil {
				t.Errorf("the example %s is refused: %v", name, err)
			}
		}
	}
}
