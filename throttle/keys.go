package throttle

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/google/uuid"

	"github.com/pushpace/pushpace/internal/base/shard"
)

// The keys of a user, all under one hash tag so that a Redis Cluster keeps
// them in one slot. Instants are in µs of Redis's clock.
//
//	PREFIX:{APP/USER}:sent          admissions: sorted set, by member(ID)
//	PREFIX:{APP/USER}:sent:CAT      the category's, where it has limits of its own
//	PREFIX:{APP/USER}:booked        the slots of all that wait: sorted set, of
//	                                "CAT INSTANT"
//	PREFIX:{APP/USER}:queue:CAT     who waits of the category, by the instant of
//	                                acceptance: sorted set, by ID. The k-th holds
//	                                the category's k-th slot, if there are so many
//	PREFIX:{APP/USER}:limits        the limits that the slots were given by, with what
//	                                is closed by quiet hours: hash, while somebody waits
//
// A claim's are remembered, the others are written when a script needs them.
type keys struct {
	sent, catSent    string
	booked, catQueue string
	category         string // escaped
}

// timeline is the key of the scope's admissions.
func (k *keys) timeline(scope string) string {
	if scope == General {
		return k.sent
	}
	return k.catSent
}

func userKeys(prefix string, r *Request) keys {
	base, name := prefix+":{"+shard.UserTag(r.App, r.User)+"}:", Escape(r.class())
	k := keys{catSent: base + "sent:" + name, catQueue: base + "queue:" + name, booked: base + "booked"}
	k.sent = k.catSent[:len(base+"sent")] // parts of one: many users are remembered
	k.category = k.catSent[len(k.sent)+1:]
	return k
}

func (k *keys) base() string   { return k.sent[:len(k.sent)-len("sent")] }
func (k *keys) limits() string { return k.base() + "limits" }

// all are the keys in the order in which the script has them, with those of the other
// categories, which are escaped.
func (k *keys) all(others []string) []string {
	all := append(make([]string, 0, 5+2*len(others)), k.sent, k.booked, k.limits(), k.catSent, k.catQueue)
	for _, name := range others {
		all = append(all, k.base()+"sent:"+name, k.base()+"queue:"+name)
	}
	return all
}

// Escape writes name with every byte outside A–Z a–z 0–9 . _ ~ @ + - as %XX,
// so that no name can end the hash tag or reach into another's keys.
func Escape(name string) string { return shard.Escape(name) }

const (
	uuidMark   = '~'
	digestMark = '#'
	// longestMember keeps a timeline of 100 admissions under 4.5 kB.
	longestMember = 26
)

// member is what stands for the notification in the sets of admissions, of
// which there are many: the ID itself when it is short, a UUID in 23 bytes, a
// digest of 128 bits otherwise.
func member(id string) string {
	if id == "" {
		return ""
	}
	if raw, err := uuid.Parse(id); err == nil && raw.String() == id { // as it is written canonically
		return string(uuidMark) + base64.RawURLEncoding.EncodeToString(raw[:])
	}
	if len(id) <= longestMember && id[0] != uuidMark && id[0] != digestMark {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return string(digestMark) + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// AdmissionID answers the ID as the admissions of a Timeline have it.
func AdmissionID(id string) string { return memberID(member(id)) }

// memberID is the inverse of member, as far as there is one.
func memberID(m string) string {
	if len(m) != 23 || m[0] != uuidMark {
		return m
	}
	raw, err1 := base64.RawURLEncoding.DecodeString(m[1:])
	id, err2 := uuid.FromBytes(raw)
	if err1 != nil || err2 != nil {
		return m
	}
	return id.String()
}
