//go:build e2e && linux

package deploy

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// known are the keys of the manifests, so that a mistyped one does not do nothing.
var known = strings.Fields(`
	apiVersion kind metadata name labels annotations data spec selector matchLabels replicas minAvailable
	strategy rollingUpdate maxUnavailable maxSurge template automountServiceAccountToken terminationGracePeriodSeconds
	securityContext runAsNonRoot runAsUser runAsGroup fsGroup seccompProfile type allowPrivilegeEscalation
	readOnlyRootFilesystem capabilities drop containers image args ports port targetPort containerPort protocol
	startupProbe livenessProbe readinessProbe httpGet path periodSeconds timeoutSeconds failureThreshold
	lifecycle preStop sleep seconds resources requests limits cpu memory volumeMounts mountPath readOnly
	volumes configMap secret secretName defaultMode emptyDir medium sizeLimit
	podSelector namespaceSelector policyTypes ingress from config.yaml`)

// A node is a part of a manifest.
type node struct{ of any }

// at is what lies at the path, as a.0.b; nothing where there is none.
func (n node) at(path string) node {
	for key := range strings.SplitSeq(path, ".") {
		switch of := n.of.(type) {
		case map[string]any:
			n = node{of[key]}
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(of) {
				return node{}
			}
			n = node{of[i]}
		default:
			return node{}
		}
	}
	return n
}

func (n node) String() string { return fmt.Sprint(n.of) }

// number is 0 where there is none.
func (n node) number() int {
	i, _ := strconv.Atoi(n.String())
	return i
}

// holds checks what lies at each path.
func (n node) holds(t *testing.T, want map[string]string) {
	t.Helper()
	for path, want := range want {
		if got := n.at(path).String(); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

// unknown checks the keys, but not of labels and annotations, which are anybody's.
func unknown(t *testing.T, file string, of any) {
	t.Helper()
	switch of := of.(type) {
	case map[string]any:
		for key, of := range of {
			if !slices.Contains(known, key) && !strings.Contains(key, ".io/") {
				t.Errorf("%s: nobody knows %s", file, key)
			}
			unknown(t, file, of)
		}
	case []any:
		for _, of := range of {
			unknown(t, file, of)
		}
	}
}

// manifests are all that the files hold, by kind and name.
func manifests(t *testing.T) map[string]node {
	t.Helper()
	files, err := filepath.Glob("kubernetes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	all := map[string]node{}
	for _, file := range files {
		documents := yaml.NewDecoder(strings.NewReader(read(t, file)))
		for {
			var m map[string]any
			err := documents.Decode(&m)
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			unknown(t, file, m)
			all[node{m}.at("kind").String()+"/"+node{m}.at("metadata.name").String()] = node{m}
		}
	}
	return all
}

func TestManifests(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	versions := map[string]string{
		"ConfigMap": "v1", "Service": "v1", "Deployment": "apps/v1", "PodDisruptionBudget": "policy/v1", "NetworkPolicy": "networking.k8s.io/v1",
	}
	for name, m := range all {
		kind, _, _ := strings.Cut(name, "/")
		if labels, _ := m.at("metadata.labels").of.(map[string]any); m.at("apiVersion").String() != versions[kind] || labels["app.kubernetes.io/name"] != "pushpace" {
			t.Errorf("%s: %s, labels %v", name, m.at("apiVersion"), labels)
		}
	}
	text, _ := all["ConfigMap/pushpace"].at("data").of.(map[string]any)["config.yaml"].(string)
	c := load(t, text, "/run/secrets/pushpace/redis-password", "/run/secrets/pushpace/apns-key.p8")
	listens(t, c)
	for role, ports := range map[string]string{
		"worker": "[map[containerPort:9090 name:telemetry]]", "api": "[map[containerPort:8080 name:http] map[containerPort:9090 name:telemetry]]",
	} {
		m, budget := all["Deployment/pushpace-"+role], all["PodDisruptionBudget/pushpace-"+role]
		if replicas, least := m.at("spec.replicas").number(), budget.at("spec.minAvailable").number(); replicas < 2 || least < 1 || least >= replicas {
			t.Errorf("%s: %d replicas, of which %d have to stay", role, replicas, least)
		}
		own := "map[app.kubernetes.io/component:" + role + " app.kubernetes.io/name:pushpace]"
		budget.holds(t, map[string]string{"spec.selector.matchLabels": own})
		m.holds(t, map[string]string{"spec.selector.matchLabels": own, "spec.template.metadata.labels": own})
		pod := m.at("spec.template.spec")
		drains(t, c, time.Duration(pod.at("terminationGracePeriodSeconds").number()-pod.at("containers.0.lifecycle.preStop.sleep.seconds").number())*time.Second)
		pod.holds(t, map[string]string{
			"automountServiceAccountToken":        "false",
			"securityContext.runAsNonRoot":        "true",
			"securityContext.runAsUser":           "65532",
			"securityContext.seccompProfile.type": "RuntimeDefault",
			"volumes.0.configMap.name":            "pushpace",
			"volumes.1.secret.secretName":         "pushpace",
			"volumes.2.name":                      "tmp",
			"volumes.3":                           "<nil>",
		})
		pod.at("containers.0").holds(t, map[string]string{
			"args":                   "[serve --only " + role + "]",
			"ports":                  ports,
			"startupProbe.httpGet":   "map[path:/healthz port:telemetry]",
			"livenessProbe.httpGet":  "map[path:/healthz port:telemetry]",
			"readinessProbe.httpGet": "map[path:/readyz port:telemetry]",
			"securityContext":        "map[allowPrivilegeEscalation:false capabilities:map[drop:[ALL]] readOnlyRootFilesystem:true]",
			"resources":              "map[limits:map[memory:512Mi] requests:map[cpu:250m memory:128Mi]]",
			"volumeMounts":           "[map[mountPath:/etc/pushpace name:config readOnly:true] map[mountPath:/run/secrets/pushpace name:secrets readOnly:true] map[mountPath:/tmp name:tmp]]",
		})
	}
	all["Service/pushpace-api"].holds(t, map[string]string{
		"spec.ports": "[map[name:http port:80 targetPort:http]]", "spec.selector": "map[app.kubernetes.io/component:api app.kubernetes.io/name:pushpace]",
	})
	all["NetworkPolicy/pushpace"].holds(t, map[string]string{
		"spec.ingress.0": "map[from:[map[podSelector:map[]]] ports:[map[port:http protocol:TCP]]]",
		"spec.ingress.1": "map[from:[map[namespaceSelector:map[matchLabels:map[kubernetes.io/metadata.name:monitoring]]]] ports:[map[port:telemetry protocol:TCP]]]",
		"spec.ingress.2": "<nil>",
	})
}
