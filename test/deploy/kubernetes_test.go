//go:build e2e && linux

package deploy

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// A manifest is what the manifests here say, of any kind. What it does not know
// is an error, so that a mistyped key does not do nothing.
type manifest struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   metadata          `yaml:"metadata"`
	Data       map[string]string `yaml:"data"`
	Spec       struct {
		// Deployment
		Replicas int `yaml:"replicas"`
		Strategy struct {
			RollingUpdate struct {
				MaxUnavailable int `yaml:"maxUnavailable"`
				MaxSurge       int `yaml:"maxSurge"`
			} `yaml:"rollingUpdate"`
		} `yaml:"strategy"`
		Template struct {
			Metadata metadata `yaml:"metadata"`
			Spec     pod      `yaml:"spec"`
		} `yaml:"template"`
		// Service and PodDisruptionBudget too
		Selector     any    `yaml:"selector"`
		Ports        []port `yaml:"ports"`
		MinAvailable int    `yaml:"minAvailable"`
		// NetworkPolicy
		PodSelector selector `yaml:"podSelector"`
		PolicyTypes []string `yaml:"policyTypes"`
		Ingress     []struct {
			From []struct {
				PodSelector       *selector `yaml:"podSelector"`
				NamespaceSelector *selector `yaml:"namespaceSelector"`
			} `yaml:"from"`
			Ports []port `yaml:"ports"`
		} `yaml:"ingress"`
	} `yaml:"spec"`
}

type metadata struct {
	Name        string            `yaml:"name"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type port struct {
	Name          string `yaml:"name"`
	Protocol      string `yaml:"protocol"`
	Port          any    `yaml:"port"`
	TargetPort    string `yaml:"targetPort"`
	ContainerPort int    `yaml:"containerPort"`
}

type pod struct {
	AutomountServiceAccountToken  *bool `yaml:"automountServiceAccountToken"`
	TerminationGracePeriodSeconds int   `yaml:"terminationGracePeriodSeconds"`
	SecurityContext               struct {
		RunAsNonRoot   bool              `yaml:"runAsNonRoot"`
		RunAsUser      int               `yaml:"runAsUser"`
		RunAsGroup     int               `yaml:"runAsGroup"`
		FSGroup        int               `yaml:"fsGroup"`
		SeccompProfile map[string]string `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Containers []container `yaml:"containers"`
	Volumes    []struct {
		Name      string            `yaml:"name"`
		ConfigMap map[string]string `yaml:"configMap"`
		Secret    struct {
			SecretName  string `yaml:"secretName"`
			DefaultMode int    `yaml:"defaultMode"`
		} `yaml:"secret"`
		EmptyDir map[string]string `yaml:"emptyDir"`
	} `yaml:"volumes"`
}

type container struct {
	Name           string   `yaml:"name"`
	Image          string   `yaml:"image"`
	Args           []string `yaml:"args"`
	Ports          []port   `yaml:"ports"`
	StartupProbe   probe    `yaml:"startupProbe"`
	LivenessProbe  probe    `yaml:"livenessProbe"`
	ReadinessProbe probe    `yaml:"readinessProbe"`
	Lifecycle      struct {
		PreStop struct {
			Sleep struct {
				Seconds int `yaml:"seconds"`
			} `yaml:"sleep"`
		} `yaml:"preStop"`
	} `yaml:"lifecycle"`
	Resources struct {
		Requests map[string]string `yaml:"requests"`
		Limits   map[string]string `yaml:"limits"`
	} `yaml:"resources"`
	SecurityContext struct {
		AllowPrivilegeEscalation *bool               `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool                `yaml:"readOnlyRootFilesystem"`
		Capabilities             map[string][]string `yaml:"capabilities"`
	} `yaml:"securityContext"`
	VolumeMounts []struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct {
		Path string `yaml:"path"`
		Port string `yaml:"port"`
	} `yaml:"httpGet"`
	PeriodSeconds    int `yaml:"periodSeconds"`
	TimeoutSeconds   int `yaml:"timeoutSeconds"`
	FailureThreshold int `yaml:"failureThreshold"`
}

// manifests are all that the files hold, by kind and name.
func manifests(t *testing.T) map[string]manifest {
	t.Helper()
	files, err := filepath.Glob("kubernetes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	all := map[string]manifest{}
	for _, file := range files {
		documents := yaml.NewDecoder(strings.NewReader(read(t, file)), yaml.Strict())
		for {
			var m manifest
			err := documents.Decode(&m)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all[m.Kind+"/"+m.Metadata.Name] = m
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
		if m.APIVersion != versions[m.Kind] || m.Metadata.Labels["app.kubernetes.io/name"] != "pushpace" {
			t.Errorf("%s: %s, labels %v", name, m.APIVersion, m.Metadata.Labels)
		}
	}
	c := load(t, all["ConfigMap/pushpace"].Data["config.yaml"], "/run/secrets/pushpace/redis-password", "/run/secrets/pushpace/apns-key.p8")
	listens(t, c)
	for _, role := range []string{"worker", "api"} {
		m, budget := all["Deployment/pushpace-"+role], all["PodDisruptionBudget/pushpace-"+role]
		if m.Spec.Replicas < 2 || budget.Spec.MinAvailable < 1 || budget.Spec.MinAvailable >= m.Spec.Replicas {
			t.Errorf("%s: %d replicas, of which %d have to stay", role, m.Spec.Replicas, budget.Spec.MinAvailable)
		}
		own := map[string]any{"app.kubernetes.io/name": "pushpace", "app.kubernetes.io/component": role}
		for what, s := range map[string]any{"deployment": m.Spec.Selector, "budget": budget.Spec.Selector} {
			labels, _ := s.(map[string]any)["matchLabels"].(map[string]any)
			for key, want := range own {
				if len(labels) != len(own) || labels[key] != want || m.Spec.Template.Metadata.Labels[key] != want {
					t.Errorf("%s: the %s selects %v, and the pods have %v", role, what, labels, m.Spec.Template.Metadata.Labels)
				}
			}
		}
		pod := m.Spec.Template.Spec
		stop := time.Duration(pod.TerminationGracePeriodSeconds-pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds) * time.Second
		drains(t, c, stop)
		checkPod(t, pod, role)
	}
	service := all["Service/pushpace-api"].Spec
	if len(service.Ports) != 1 || service.Ports[0].TargetPort != "http" || service.Selector.(map[string]any)["app.kubernetes.io/component"] != "api" {
		t.Errorf("the service: %+v", service)
	}
	for _, rule := range all["NetworkPolicy/pushpace"].Spec.Ingress {
		if len(rule.From) == 0 || len(rule.Ports) != 1 || rule.Ports[0].Port != "http" && rule.Ports[0].Port != "telemetry" {
			t.Errorf("the network policy lets in %+v", rule)
		}
	}
}

func checkPod(t *testing.T, p pod, role string) {
	t.Helper()
	c := p.Containers[0]
	if !slices.Equal(c.Args, []string{"serve", "--only", role}) {
		t.Errorf("%s runs %q", role, c.Args)
	}
	ports := map[string]int{}
	for _, port := range c.Ports {
		ports[port.Name] = port.ContainerPort
	}
	if ports["telemetry"] != 9090 || (ports["http"] == 8080) != (role == "api") {
		t.Errorf("%s: ports %v", role, ports)
	}
	for path, probes := range map[string][]probe{"/healthz": {c.StartupProbe, c.LivenessProbe}, "/readyz": {c.ReadinessProbe}} {
		for _, p := range probes {
			if p.HTTPGet.Path != path || p.HTTPGet.Port != "telemetry" || p.PeriodSeconds == 0 {
				t.Errorf("%s: %+v asks something else than %s", role, p, path)
			}
		}
	}
	s := c.SecurityContext
	if p.SecurityContext.SeccompProfile["type"] != "RuntimeDefault" || !p.SecurityContext.RunAsNonRoot || p.SecurityContext.RunAsUser != 65532 ||
		p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
		!s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities["drop"], []string{"ALL"}) || len(s.Capabilities) != 1 {
		t.Errorf("%s may do too much: %+v, %+v", role, p.SecurityContext, s)
	}
	if c.Resources.Requests["cpu"] == "" || c.Resources.Requests["memory"] == "" || c.Resources.Limits["memory"] == "" {
		t.Errorf("%s: resources %v", role, c.Resources)
	}
	mounts := map[string]string{}
	for _, m := range c.VolumeMounts {
		mounts[m.Name] = m.MountPath
	}
	if len(p.Volumes) != len(mounts) || mounts["config"] != "/etc/pushpace" || mounts["secrets"] != "/run/secrets/pushpace" || mounts["tmp"] != "/tmp" {
		t.Errorf("%s: mounts %v", role, mounts)
	}
	for _, v := range p.Volumes {
		if mounts[v.Name] == "" || v.Name == "config" && v.ConfigMap["name"] != "pushpace" || v.Name == "secrets" && v.Secret.SecretName != "pushpace" {
			t.Errorf("%s: volume %+v", role, v)
		}
	}
}
