// Package chart renders deploy/chart with Helm, and checks the result against Kubernetes' types
// and pushpace's configuration. It has its own module, which keeps Helm out of the module graph of
// pushpace's users.
package chart

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/pushpace/pushpace/internal/config"
)

const dir = "../../deploy/chart"

// minimal returns values with an app and a token, overridden by the YAML in override.
func minimal(t *testing.T, override string) map[string]any {
	t.Helper()
	text, err := os.ReadFile("testdata/values.yaml")
	must(t, err)
	var values, others map[string]any
	must(t, yaml.Unmarshal(text, &values))
	must(t, yaml.UnmarshalStrict([]byte(override), &others))
	return loader.MergeMaps(values, others)
}

// A rendered chart has its objects by name.
type rendered struct {
	deployments map[string]*apps.Deployment
	services    map[string]*core.Service
	configs     map[string]*core.ConfigMap
	budgets     map[string]*policy.PodDisruptionBudget
	networks    map[string]*networking.NetworkPolicy
}

// render renders the chart as the release pushpace. It fails on documents of an unknown kind or with
// unknown fields.
func render(t *testing.T, values map[string]any) rendered {
	t.Helper()
	chart, err := loader.LoadDir(dir)
	must(t, err)
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: "pushpace", Namespace: "push", IsInstall: true}, common.DefaultCapabilities)
	must(t, err)
	files, err := engine.Render(chart, all)
	must(t, err)
	r := rendered{map[string]*apps.Deployment{}, map[string]*core.Service{}, map[string]*core.ConfigMap{}, map[string]*policy.PodDisruptionBudget{}, map[string]*networking.NetworkPolicy{}}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(file) != ".yaml" {
			continue
		}
		for document := range strings.SplitSeq(files[file], "\n---\n") {
			var of meta.TypeMeta
			if strings.TrimSpace(document) == "" {
				continue
			}
			must(t, yaml.Unmarshal([]byte(document), &of))
			switch kind := of.APIVersion + " " + of.Kind; kind {
			case "apps/v1 Deployment":
				keep(t, document, r.deployments)
			case "v1 Service":
				keep(t, document, r.services)
			case "v1 ConfigMap":
				keep(t, document, r.configs)
			case "policy/v1 PodDisruptionBudget":
				keep(t, document, r.budgets)
			case "networking.k8s.io/v1 NetworkPolicy":
				keep(t, document, r.networks)
			default:
				t.Errorf("%s has a %s", file, kind)
			}
		}
	}
	return r
}

func keep[T any](t *testing.T, document string, all map[string]*T) {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	named := any(object).(meta.Object)
	if labels := named.GetLabels(); labels["app.kubernetes.io/name"] != "pushpace" || labels["app.kubernetes.io/instance"] != "pushpace" || labels["app.kubernetes.io/managed-by"] != "Helm" {
		t.Errorf("%s has the labels %v", named.GetName(), labels)
	}
	all[named.GetName()] = object
}

// configured loads the configuration of the ConfigMap, with secrets in a temporary folder.
func (r rendered) configured(t *testing.T) *config.Config {
	t.Helper()
	text, here := r.configs["pushpace"].Data["config.yaml"], t.TempDir()
	for _, secret := range []string{"redis-password", "apns-key.p8"} {
		path := "/run/secrets/pushpace/" + secret
		if !strings.Contains(text, path) {
			t.Errorf("the configuration names no %s", path)
		}
		text = strings.ReplaceAll(text, path, filepath.Join(here, secret))
		must(t, os.WriteFile(filepath.Join(here, secret), []byte("a secret"), 0o600))
	}
	c, err := config.Parse(filepath.Join(here, "config.yaml"), []byte(text), nil)
	must(t, err)
	return c
}

func TestChartLints(t *testing.T) {
	t.Parallel()
	linter := lint.RunAll(dir, minimal(t, ""), "push")
	for _, message := range linter.Messages {
		if message.Severity > 1 { // 1 is information, such as a missing icon
			t.Errorf("%+v", message)
		}
	}
}

func TestChartRunsEachRole(t *testing.T) {
	t.Parallel()
	r := render(t, minimal(t, ""))
	c := r.configured(t)
	if c.HTTP.Listen != "0.0.0.0:8080" || c.Telemetry.Listen != "0.0.0.0:9090" || len(c.HTTP.Tokens) != 1 || !c.Redis.Strict {
		t.Errorf("it listens on %s and %s, for %d tokens; strict %t", c.HTTP.Listen, c.Telemetry.Listen, len(c.HTTP.Tokens), c.Redis.Strict)
	}
	if len(r.deployments) != 2 || len(r.budgets) != 2 || len(r.services) != 1 || len(r.networks) != 1 || len(r.configs) != 1 {
		t.Fatalf("it renders %+v", r)
	}
	telemetry, http := core.ContainerPort{Name: "telemetry", ContainerPort: 9090}, core.ContainerPort{Name: "http", ContainerPort: 8080}
	for role, ports := range map[string][]core.ContainerPort{"worker": {telemetry}, "api": {http, telemetry}} {
		d, budget := r.deployments["pushpace-"+role], r.budgets["pushpace-"+role]
		own := map[string]string{"app.kubernetes.io/name": "pushpace", "app.kubernetes.io/instance": "pushpace", "app.kubernetes.io/component": role}
		if !maps.Equal(d.Spec.Selector.MatchLabels, own) || !maps.Equal(budget.Spec.Selector.MatchLabels, own) {
			t.Errorf("%s selects %v, its budget %v", role, d.Spec.Selector, budget.Spec.Selector)
		}
		for key, value := range own {
			if d.Spec.Template.Labels[key] != value {
				t.Errorf("the pods of %s have the labels %v", role, d.Spec.Template.Labels)
			}
		}
		// The budget also allows the drain of a node with the only replica.
		if replicas := *d.Spec.Replicas; replicas < 2 || budget.Spec.MinAvailable != nil || *budget.Spec.MaxUnavailable != intstr.FromInt32(1) {
			t.Errorf("%s: %d replicas with the budget %+v", role, replicas, budget.Spec)
		}
		pod := d.Spec.Template.Spec
		container := pod.Containers[0]
		grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
		if container.Lifecycle != nil {
			grace -= time.Duration(container.Lifecycle.PreStop.Sleep.Seconds) * time.Second
		}
		if grace < c.Worker.ShutdownTimeout+5*time.Second {
			t.Errorf("%s is killed %s after SIGTERM, and may take %s", role, grace, c.Worker.ShutdownTimeout)
		}
		confined(t, role, pod)
		if !slices.Equal(container.Args, []string{"serve", "--only", role}) || !slices.Equal(container.Ports, ports) || !strings.HasPrefix(container.Image, "ghcr.io/pushpace/pushpace:") {
			t.Errorf("%s runs %s with %v on %v", role, container.Image, container.Args, container.Ports)
		}
		for path, probe := range map[string]*core.Probe{"/healthz": container.LivenessProbe, "/readyz": container.ReadinessProbe} {
			if probe.HTTPGet.Path != path || probe.HTTPGet.Port != intstr.FromString("telemetry") {
				t.Errorf("%s is probed at %+v, want %s", role, probe.HTTPGet, path)
			}
		}
		if container.StartupProbe.HTTPGet.Path != "/healthz" || container.Resources.Limits.Memory().IsZero() || container.Resources.Requests.Cpu().IsZero() {
			t.Errorf("%s: startup probe %+v, resources %+v", role, container.StartupProbe, container.Resources)
		}
	}
	service := r.services["pushpace-api"]
	if port := service.Spec.Ports[0]; port.Port != 80 || port.TargetPort != intstr.FromString("http") || service.Spec.Selector["app.kubernetes.io/component"] != "api" {
		t.Errorf("the service is %+v", service.Spec)
	}
}

// confined checks that the pod has only the rights it needs, and its files at the paths that the
// image reads.
func confined(t *testing.T, role string, pod core.PodSpec) {
	t.Helper()
	own, container := pod.SecurityContext, pod.Containers[0].SecurityContext
	if *pod.AutomountServiceAccountToken || !*own.RunAsNonRoot || *own.RunAsUser != 65532 || own.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault ||
		*container.AllowPrivilegeEscalation || !*container.ReadOnlyRootFilesystem || !slices.Equal(container.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("%s may do too much: %+v, %+v", role, own, container)
	}
	var mounts []string
	for _, m := range pod.Containers[0].VolumeMounts {
		mounts = append(mounts, m.Name+" "+m.MountPath)
		if m.Name != "tmp" && !m.ReadOnly {
			t.Errorf("%s may write to %s", role, m.MountPath)
		}
	}
	if want := []string{"config /etc/pushpace", "secrets /run/secrets/pushpace", "tmp /tmp"}; !slices.Equal(mounts, want) {
		t.Errorf("%s mounts %v, want %v", role, mounts, want)
	}
	if v := pod.Volumes; v[0].ConfigMap.Name != "pushpace" || v[1].Secret.SecretName != "pushpace" || *v[1].Secret.DefaultMode != 0o440 || v[2].EmptyDir == nil || len(v) != 3 {
		t.Errorf("%s has the volumes %+v", role, v)
	}
}

// The API accepts connections only from the namespace and apiFrom, the metrics only from Prometheus'
// namespace.
func TestChartRestrictsNetwork(t *testing.T) {
	t.Parallel()
	spec := render(t, minimal(t, `
networkPolicy:
  monitoringNamespace: watching
  apiFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress}}}]
`)).networks["pushpace"].Spec
	if len(spec.Ingress) != 2 || !slices.Equal(spec.PolicyTypes, []networking.PolicyType{"Ingress"}) || spec.PodSelector.MatchLabels["app.kubernetes.io/name"] != "pushpace" {
		t.Fatalf("%+v", spec)
	}
	api, metrics := spec.Ingress[0], spec.Ingress[1]
	if from := api.From[0]; len(api.From) != 2 || from.PodSelector == nil || from.NamespaceSelector != nil || api.From[1].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "ingress" || *api.Ports[0].Port != intstr.FromString("http") {
		t.Errorf("%+v", api)
	}
	if from := metrics.From[0]; len(metrics.From) != 1 || from.PodSelector != nil || from.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "watching" || *metrics.Ports[0].Port != intstr.FromString("telemetry") {
		t.Errorf("%+v", metrics)
	}
}

func TestChartUsesValues(t *testing.T) {
	t.Parallel()
	r := render(t, minimal(t, `
image: {repository: registry.example/push, tag: 0.1.1}
imagePullSecrets: [{name: registry}]
secret: credentials
worker: {replicas: 7, nodeSelector: {pool: push}, tolerations: [{key: push, operator: Exists}]}
podDisruptionBudget: {enabled: false}
networkPolicy: {enabled: false}
podLabels: {team: push}
env: [{name: HTTPS_PROXY, value: "http://proxy.example:3128"}]
config: {telemetry: {listen: "0.0.0.0:9191"}}
`))
	d := r.deployments["pushpace-worker"]
	pod := d.Spec.Template.Spec
	if *d.Spec.Replicas != 7 || pod.NodeSelector["pool"] != "push" || len(pod.Tolerations) != 1 || pod.ImagePullSecrets[0].Name != "registry" || d.Spec.Template.Labels["team"] != "push" ||
		pod.Containers[0].Image != "registry.example/push:0.1.1" || pod.Containers[0].Env[0].Name != "HTTPS_PROXY" || pod.Volumes[1].Secret.SecretName != "credentials" {
		t.Errorf("%+v", d.Spec)
	}
	if port := pod.Containers[0].Ports[0].ContainerPort; port != 9191 || r.configured(t).Telemetry.Listen != "0.0.0.0:9191" {
		t.Errorf("the metrics are at port %d", port)
	}
	if all := d.Spec.Template.Annotations; all["prometheus.io/port"] != "9191" || all["prometheus.io/scrape"] != "true" {
		t.Errorf("the pods have the annotations %v", all)
	}
	if len(r.budgets)+len(r.networks) != 0 {
		t.Errorf("%+v, %+v", r.budgets, r.networks)
	}
}

// A changed configuration replaces the pods of both roles, and an unchanged one does not.
func TestChartChangedConfigReplacesPods(t *testing.T) {
	t.Parallel()
	const other = "config: {redis: {address: other:6379}}"
	first, same, changed := render(t, minimal(t, "")), render(t, minimal(t, "")), render(t, minimal(t, other))
	for name, d := range first.deployments {
		if !reflect.DeepEqual(d.Spec.Template, same.deployments[name].Spec.Template) || reflect.DeepEqual(d.Spec.Template, changed.deployments[name].Spec.Template) {
			t.Errorf("%s: the annotations are %v, and with %s %v", name, d.Spec.Template.Annotations, other, changed.deployments[name].Spec.Template.Annotations)
		}
	}
}

// A mistyped value, or a missing app, is an error of helm install.
func TestChartRefusesInvalidValues(t *testing.T) {
	t.Parallel()
	chart, err := loader.LoadDir(dir)
	must(t, err)
	for want, values := range map[string]map[string]any{
		"replica":                minimal(t, "worker: {replica: 3}"),
		"secrets":                minimal(t, "secrets: credentials"),
		"/worker/preStopSeconds": minimal(t, "worker: {preStopSeconds: 3}"), // only the API has it
		"/apps":                  {},                                        // without an app the program would not start
	} {
		if _, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: "pushpace"}, common.DefaultCapabilities); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", values, err, want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
