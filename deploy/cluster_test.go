//go:build linux

package deploy

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/redistest"
)

const (
	clusterFile = "cluster/compose.yaml"
	servers     = 6
)

func TestClusterCompose(t *testing.T) {
	t.Parallel()
	c, one := compose(t, clusterFile), compose(t, "compose/compose.yaml")
	cfg := load(t, read(t, "cluster/config.yaml"), "/run/secrets/redis-password")
	listens(t, cfg)
	pushpace, create := c.Services["pushpace"], c.Services["create"]
	drains(t, cfg, pushpace.StopGracePeriod)
	c.confined(t)
	if !cfg.Redis.Strict || cfg.Redis.Address.Mode != config.Cluster || len(c.Services) != servers+2 || c.Name == one.Name || pushpace.Build != one.Services["pushpace"].Build {
		t.Errorf("%s has %d services, and Redis is %+v", c.Name, len(c.Services), cfg.Redis.Address)
	}
	subnet := strings.TrimSuffix(c.Networks["cluster"].IPAM.Config[0].Subnet, "0/24")
	for name, s := range c.Services {
		if s.Restart == "" || !slices.Equal(s.Secrets, []string{"redis-password"}) || c.Secrets["redis-password"].File != "redis-password" || len(s.Networks) != 1 {
			t.Errorf("%s: %+v", name, s)
		}
		if name == "pushpace" || name == "create" {
			continue
		}
		address := s.Networks["cluster"].IPv4Address
		if s.Image != one.Services["redis"].Image || s.User != one.Services["redis"].User || len(s.Ports) != 0 || !strings.HasPrefix(address, subnet) || strings.Count(create.Command[2], " "+address+":6379") != 1 {
			t.Errorf("%s, at %s, is not made part of the Cluster: %+v", name, address, s)
		}
		if _, own := c.Volumes[name]; !own || !slices.Equal(s.Volumes, []string{name + ":/data"}) || create.DependsOn[name].Condition != "service_healthy" || len(s.Healthcheck.Test) != 2 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	for _, host := range cfg.Redis.Address.Hosts {
		if !strings.Contains(create.Command[2], " "+host+" ") {
			t.Errorf("pushpace looks for %s", host)
		}
	}
	if pushpace.DependsOn["create"].Condition != "service_completed_successfully" || len(pushpace.Configs) != 1 || c.Configs[pushpace.Configs[0].Source].File != "config.yaml" {
		t.Errorf("%+v, %+v", pushpace.DependsOn, pushpace.Configs)
	}
}

func TestClusterManifests(t *testing.T) {
	t.Parallel()
	all := manifests(t, "cluster/kubernetes.yaml")
	versions := map[string]string{
		"Service/redis": "v1", "StatefulSet/redis": "apps/v1", "Job/redis-create": "batch/v1", "PodDisruptionBudget/redis": "policy/v1", "NetworkPolicy/redis": "networking.k8s.io/v1",
	}
	for name, m := range all {
		if m.APIVersion != versions[name] || m.Metadata.Labels["app.kubernetes.io/name"] != "redis" {
			t.Errorf("%s: %s, labels %v", name, m.APIVersion, m.Metadata.Labels)
		}
	}
	if len(all) != len(versions) {
		t.Errorf("there are %v", slices.Sorted(maps.Keys(all)))
	}
	set, job, service, budget := all["StatefulSet/redis"].Spec, all["Job/redis-create"].Spec, all["Service/redis"].Spec, all["PodDisruptionBudget/redis"].Spec
	own := map[string]string{"app.kubernetes.io/name": "redis", "app.kubernetes.io/component": "server"}
	if set.Replicas != servers || set.ServiceName != "redis" || service.ClusterIP != "None" || !service.PublishNotReadyAddresses || budget.MaxUnavailable != 1 || !maps.Equal(set.Template.Metadata.Labels, own) {
		t.Errorf("%+v, %+v, %+v", set, service, budget)
	}
	for what, s := range map[string]any{"set": set.Selector, "budget": budget.Selector, "service": map[string]any{"matchLabels": service.Selector}} {
		labels, _ := s.(map[string]any)["matchLabels"].(map[string]any)
		for key, want := range own {
			if len(labels) != len(own) || labels[key] != want {
				t.Errorf("the %s selects %v", what, labels)
			}
		}
	}
	for name, p := range map[string]pod{"redis": set.Template.Spec, "create": job.Template.Spec} {
		p.confined(t, name, 999)
		secret := p.Volumes[0].Secret
		if p.Containers[0].Image != compose(t, "compose/compose.yaml").Services["redis"].Image || secret.SecretName != "pushpace" || len(secret.Items) != 1 || secret.Items[0].Key != "redis-password" {
			t.Errorf("%s: %+v, %+v", name, p.Containers[0].Image, p.Volumes)
		}
	}
	apart := set.Template.Spec.Affinity.PodAntiAffinity.Required
	if len(apart) != 1 || apart[0].TopologyKey != "kubernetes.io/hostname" || !maps.Equal(apart[0].LabelSelector.MatchLabels, own) {
		t.Errorf("a master may share a machine with its replica: %+v", apart)
	}
	c := set.Template.Spec.Containers[0]
	if len(set.VolumeClaimTemplates) != 1 || set.VolumeClaimTemplates[0].Metadata.Name != "data" || c.VolumeMounts[0].Name != "data" || c.VolumeMounts[0].MountPath != "/data" || job.Template.Spec.RestartPolicy != "OnFailure" {
		t.Errorf("%+v, %+v", set.VolumeClaimTemplates, c.VolumeMounts)
	}
	for _, rule := range all["NetworkPolicy/redis"].Spec.Ingress {
		if len(rule.From) == 0 || len(rule.Ports) != 1 {
			t.Errorf("the network policy lets in %+v", rule)
		}
		for _, from := range rule.From {
			name := from.PodSelector.MatchLabels["app.kubernetes.io/name"]
			if name != "redis" && (name != "pushpace" || rule.Ports[0].Port != "redis") {
				t.Errorf("the network policy lets in %+v", rule)
			}
		}
	}
	address := regexp.MustCompile(`(?m)^#   (address: \[.*\])$`).FindStringSubmatch(read(t, "cluster/kubernetes.yaml"))
	text := manifests(t, "kubernetes/*.yaml")["ConfigMap/pushpace"].Data["config.yaml"]
	cfg := load(t, strings.Replace(text, "address: redis:6379", address[1], 1), "/run/secrets/pushpace/redis-password", "/run/secrets/pushpace/apns-key.p8")
	if cfg.Redis.Address.Mode != config.Cluster || len(cfg.Redis.Address.Hosts) != 3 {
		t.Errorf("%+v", cfg.Redis.Address)
	}
}

// A sextet has the servers of a file as processes, each at an address of its own of this
// machine, all at one port.
type sextet struct {
	secret, port string
	data         [servers]string
	processes    []*exec.Cmd
	path         string // with what stands in for the container's programs
	names        string // a file: addresses with their names
}

const password = "open sesame"

func newSextet(t *testing.T) *sextet {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("PUSHPACE_REQUIRE_REDIS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir := t.TempDir()
	s := &sextet{secret: filepath.Join(dir, "redis-password"), path: filepath.Join(dir, "bin"), names: filepath.Join(dir, "hosts")}
	for port := 0; port == 0 || port > 55_000; { // the bus is at 10,000 more
		s.port = portOf(t, redistest.FreeAddress(t))
		port, _ = strconv.Atoi(s.port)
	}
	for i := range s.data {
		s.data[i] = t.TempDir()
	}
	for file, text := range map[string]string{s.secret: password + "\n", filepath.Join(s.path, "getent"): "#!/bin/sh\nexec grep \" $2\\$\" '" + s.names + "'\n"} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(s.kill)
	return s
}

// here is what a file says in a container, as it is on this machine.
func (s *sextet) here(text string) string {
	return strings.NewReplacer(
		"$$", "$", "/run/secrets/redis/redis-password", s.secret, "/run/secrets/redis-password", s.secret, "172.30.77.", "127.30.77.", "6379", s.port,
	).Replace(text)
}

// serve starts the i-th server by its command, at the address.
func (s *sextet) serve(t *testing.T, i int, command, address string) {
	t.Helper()
	line := strings.Replace(s.here(command), "--dir /data", "--dir "+s.data[i]+" --save '' --bind "+address+" --bind-source-addr "+address+" --port "+s.port, 1)
	server := exec.Command("sh", "-c", line)
	server.Env = append(os.Environ(), "POD_IP="+address)
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var log bytes.Buffer
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	s.processes = append(s.processes, server)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s:\n%s", address, &log)
		}
	})
}

// kill ends the servers at once.
func (s *sextet) kill() {
	for _, server := range s.processes {
		_ = syscall.Kill(-server.Process.Pid, syscall.SIGKILL)
		_ = server.Wait()
	}
	s.processes = nil
}

// run has a command of the file succeed, in a container at that address, within a minute.
func (s *sextet) run(t *testing.T, command, address string) {
	t.Helper()
	var out []byte
	var err error
	if !eventually.Within(time.Minute, func() bool { // as the container is started again
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", s.here(command))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.Env = append(os.Environ(), "POD_IP="+address, "PATH="+s.path+":"+os.Getenv("PATH"))
		out, err = cmd.CombinedOutput()
		return err == nil
	}) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// well waits until pushpace has nothing to say against the Cluster, and each master has a
// replica.
func (s *sextet) well(t *testing.T, cfg config.Redis) {
	t.Helper()
	cfg.Password, cfg.Address.Hosts = password, slices.Clone(cfg.Address.Hosts)
	for i := range cfg.Address.Hosts {
		cfg.Address.Hosts[i] = s.here(cfg.Address.Hosts[i])
	}
	var warnings []string
	var nodes []redisconn.Node
	var err error
	if !eventually.Within(time.Minute, func() bool {
		var conn *redisconn.Conn
		if conn, err = redisconn.Open(t.Context(), cfg, 4); err != nil {
			return false
		}
		defer conn.Close()
		warnings = conn.Warnings
		nodes, err = redisconn.Look(t.Context(), conn.Client)
		return err == nil && len(warnings) == 0 && len(nodes) == servers/2 && !slices.ContainsFunc(nodes, func(n redisconn.Node) bool { return n.Replicas == nil || *n.Replicas != 1 || !n.AppendOnly })
	}) {
		t.Fatalf("%q, %+v, %v", warnings, nodes, err)
	}
	cfg.Password = ""
	if conn, err := redisconn.Open(t.Context(), cfg, 1); err == nil {
		_ = conn.Close()
		t.Error("it wants no password")
	}
}

// The servers of the compose file are made a Cluster by the file's own command, once.
func TestComposedCluster(t *testing.T) {
	t.Parallel()
	s, c := newSextet(t), compose(t, clusterFile)
	for i := range servers {
		server := c.Services[fmt.Sprint("redis-", i+1)]
		s.serve(t, i, server.Command[2], s.here(server.Networks["cluster"].IPv4Address))
	}
	cfg := load(t, read(t, "cluster/config.yaml"), "/run/secrets/redis-password").Redis
	for range 2 {
		s.run(t, c.Services["create"].Command[2], "")
		s.well(t, cfg)
	}
}

// Those of the manifests too, and they find each other when all have started again at other
// addresses.
func TestManifestsCluster(t *testing.T) {
	t.Parallel()
	s, all := newSextet(t), manifests(t, "cluster/kubernetes.yaml")
	server, create := all["StatefulSet/redis"].Spec.Template.Spec.Containers[0], all["Job/redis-create"].Spec.Template.Spec.Containers[0]
	for _, network := range []string{"127.31.1.", "127.31.2."} {
		var names strings.Builder
		hosts := make([]string, servers)
		for i := range servers {
			address := network + strconv.Itoa(i+1)
			fmt.Fprintf(&names, "%s redis-%d.redis\n", address, i)
			hosts[i] = address + ":6379"
		}
		if err := os.WriteFile(s.names, []byte(names.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		for i := range servers {
			s.serve(t, i, server.Command[2], network+strconv.Itoa(i+1))
		}
		for i := range servers {
			s.run(t, server.Lifecycle.PostStart.Exec.Command[2], network+strconv.Itoa(i+1))
		}
		s.run(t, create.Command[2], "")
		var cfg config.Redis
		cfg.SetDefaults()
		cfg.Address, cfg.Strict = config.Address{Mode: config.Cluster, Hosts: hosts}, true
		s.well(t, cfg)
		s.kill()
	}
}
