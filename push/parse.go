package push

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/base/strictjson"
)

// Parse reads one notification from its JSON form, as a line of NDJSON or a
// request holds it. Unknown fields and repeated names are faults. It does not
// validate the values. Its error is of type Faults and names every field that does
// not fit.
func Parse(data []byte) (*Notification, error) {
	n := new(Notification)
	var err error
	if len(data) <= MaxEncodedSize { // larger data are refused undecoded
		err = strictjson.Decode(data, n)
	}
	if err = parsed(data, n, err); err != nil {
		return nil, err
	}
	return n, nil
}

// parsed returns the faults of a notification, given the error of its decoding.
func parsed(data []byte, n *Notification, err error) error {
	if len(data) > MaxEncodedSize {
		return fielderrors.New("", "is %d bytes, at most %d are taken", len(data), MaxEncodedSize)
	}
	err = strictjson.Check(data, n, err, openMembers...)
	if err == nil && n.TTL == 0 && bytes.Contains(data, []byte("ttl")) && namesTTL(data) {
		err = fielderrors.New("/ttl", "must be positive: leave it out for a notification that never expires")
	}
	if f, ok := err.(Faults); ok && !json.Valid(data) { //nolint:errorlint // it is of no other type
		return f
	} else if ok {
		return withOthers(data, f)
	}
	return err
}

// namesTTL reports whether a notification has a TTL. The decoded value does not show a TTL of zero.
func namesTTL(data []byte) bool {
	var named struct {
		TTL *Duration `json:"ttl"`
	}
	return json.Unmarshal(data, &named) == nil && named.TTL != nil
}

// withOthers adds the faults of the members that can be decoded, so that the error has all faults.
func withOthers(data []byte, f Faults) Faults {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return f
	}
	misfit := func(of Fault) string {
		name, _, _ := strings.Cut(strings.TrimPrefix(of.Field, "/"), "/")
		return name
	}
	for _, one := range f {
		switch name := misfit(one); name {
		case "", "push_type", "targets": // other members are checked by them
			return f
		default:
			delete(members, name)
		}
	}
	rest, err := json.Marshal(members)
	n := new(Notification)
	if err != nil || strictjson.Decode(rest, n) != nil {
		return f
	}
	for _, other := range n.faults() {
		if !slices.ContainsFunc(f, func(one Fault) bool { return misfit(one) == misfit(other) }) {
			f = append(f, other)
		}
	}
	return f
}

// openMembers are the objects with names that apps or platforms choose.
var openMembers = func() []string {
	names := []string{"data"}
	for _, p := range Platforms() {
		names = append(names, string(p))
	}
	return names
}()
