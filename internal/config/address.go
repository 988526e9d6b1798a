package config

import (
	"errors"
	"net"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/pushpace/pushpace/internal/base/suggest"
)

// Mode is how a Redis is reached.
type Mode string

// The modes.
const (
	Embedded Mode = "embedded" // inside the process: for trying out, nothing is kept
	Single   Mode = "single"   // one server
	Cluster  Mode = "cluster"  // a Redis Cluster, by some of its nodes
	Sentinel Mode = "sentinel" // the master that Sentinels name
)

// Address says where a Redis is. In a file it is "embedded", "host:port", a
// list of host:port (Cluster), or {master: NAME, sentinels: [host:port, …]}.
// The zero value is no address, which is refused.
type Address struct {
	Mode   Mode
	Hosts  []string // host:port; none when embedded; the Sentinels' for Sentinel
	Master string   // the name Sentinels know the master by
}

const wantAddress = "want embedded, host:port, a list of host:port for a Cluster, or {master: NAME, sentinels: [host:port]}"

// ParseAddress reads the one-line forms: "embedded", "host:port", and
// "host:port,host:port" for a Cluster.
func ParseAddress(s string) (Address, error) {
	if s == string(Embedded) {
		return Address{Mode: Embedded}, nil
	}
	a := Address{Mode: Single, Hosts: splitList(s)}
	if len(a.Hosts) != 1 {
		a.Mode = Cluster
	}
	for _, host := range a.Hosts {
		if err := checkHost(host); err != nil {
			return Address{}, err
		}
	}
	if len(a.Hosts) == 0 {
		return Address{}, errors.New(wantAddress)
	}
	return a, nil
}

// String is the address for a person.
func (a Address) String() string {
	hosts := strings.Join(a.Hosts, ",")
	switch a.Mode {
	case Embedded:
		return string(Embedded)
	case Cluster:
		return "cluster " + hosts
	case Sentinel:
		return "master " + a.Master + " of sentinels " + hosts
	}
	return hosts
}

// shown is the address as a file has it.
func (a Address) shown() any {
	switch {
	case a.Mode == Embedded:
		return string(Embedded)
	case a.Mode == Single && len(a.Hosts) == 1:
		return a.Hosts[0]
	case a.Mode == Sentinel:
		return shown(reflect.ValueOf(sentinelForm{a.Master, a.Hosts}), false)
	case a.Mode == "":
		return nil
	}
	return shown(reflect.ValueOf(a.Hosts), false)
}

// hostAlone is a host's name or address, IPv6 in brackets, without a port.
var hostAlone = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])$`)

// checkHost accepts host:port. The error does not repeat the text: people put
// passwords into addresses.
func checkHost(s string) error {
	if strings.Contains(s, "://") {
		return errors.New("a URL is not supported: want host:port, and username, password and tls under their own keys")
	}
	host, port, err := net.SplitHostPort(s)
	n, portErr := strconv.Atoi(port)
	switch {
	case err != nil && suggest.Name(s, []string{string(Embedded)}) == "" && hostAlone.MatchString(s):
		return errors.New("the port is missing, such as in localhost:6379; " + wantAddress)
	case err != nil, host == "", strings.ContainsAny(host, " \t\n/@,"):
		return errors.New(wantAddress + suggest.Hint(s, []string{string(Embedded)}))
	case portErr != nil || n < 1 || n > 65535:
		return errors.New("the port is not a number from 1 to 65535; " + wantAddress)
	}
	return nil
}

// address decodes the forms an address has in a file.
func (d *decoder) address(key string, n ast.Node, into *Address) {
	switch n.(type) {
	case ast.MapNode:
		var form sentinelForm
		d.structure(key, n, reflect.ValueOf(&form).Elem())
		*into = form.address()
	case *ast.SequenceNode:
		var hosts []string
		d.sequence(key, n, reflect.ValueOf(&hosts).Elem())
		*into = Address{Mode: Cluster, Hosts: hosts}
	default:
		d.place(key, n)
		text, ok := scalarText(n)
		if !ok {
			d.fault(key, wantAddress)
			return
		}
		d.addressText(key, text, into)
	}
}

func (d *decoder) addressText(key, text string, into *Address) {
	if fault := d.placeholderFault(key, text, false); fault != "" {
		d.fault(key, fault)
		return
	}
	a, err := ParseAddress(text)
	if err != nil {
		d.fault(key, err.Error())
		return
	}
	*into = a
}

// sentinelForm is an address by Sentinels in a file.
type sentinelForm struct {
	Master    string   `yaml:"master"`
	Sentinels []string `yaml:"sentinels"`
}

func (f sentinelForm) address() Address {
	return Address{Mode: Sentinel, Hosts: f.Sentinels, Master: f.Master}
}

func (a Address) check(k *check, key string) {
	hosts := key
	switch a.Mode {
	case Embedded:
		return
	case Single, Cluster:
		if len(a.Hosts) == 0 {
			k.fault(key, "the list is empty; "+wantAddress)
		}
	case Sentinel:
		hosts = join(key, "sentinels")
		if a.Master == "" {
			k.fault(join(key, "master"), "is missing: the name that the Sentinels know the master by")
		}
		if len(a.Hosts) == 0 {
			k.fault(hosts, "is missing: want a list of host:port")
		}
	default:
		k.fault(key, "is missing: "+wantAddress)
	}
	for i, host := range a.Hosts {
		if err := checkHost(host); err != nil {
			at := hosts
			if a.Mode != Single {
				at = index(hosts, i)
			}
			k.fault(at, err.Error())
		}
	}
}

// splitList splits a comma-separated list and trims the spaces around each part.
func splitList(s string) []string {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}
