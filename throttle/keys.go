package throttle

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/google/uuid"

	"github.com/pushpace/pushpace/internal/base/shard"
)

// The keys of a user, all under one hash tag so that a Redis Cluster keeps
// them in one slot. Instants are in µs of Redis's clock.
//
//	PREFIX:{APP/USER}:sent          admissions: sorted set, by member(ID)
//	PREFIX:{APP/USER}:sent:CAT      the category's, where it has limits of its own
//	PREFIX:{APP/USER}:slots         who waits: sorted set, of "CAT ZONE ID"
//	PREFIX:{APP/USER}:early         those of them whose slot is earlier than their job was
//	                                told: sorted set
//	PREFIX:{APP/USER}:lines         how many wait of each line, and when slots were placed:
//	                                hash, while somebody waits
//
// A claim's are remembered, the others are written when a script needs them.
type keys struct {
	sent, catSent, slots string
}

// timeline is the key of the scope's admissions.
func (k *keys) timeline(scope string) string {
	if scope == General {
		return k.sent
	}
	return k.catSent
}

func userKeys(prefix string, r *Request) keys {
	base := prefix + ":{" + shard.UserTag(r.App, r.User) + "}:"
	k := keys{catSent: base + "sent:" + Escape(r.class()), slots: base + "slots"}
	k.sent = k.catSent[:len(base+"sent")] // parts of one: many users are remembered
	return k
}

func (k *keys) base() string  { return k.sent[:len(k.sent)-len("sent")] }
func (k *keys) early() string { return k.base() + "early" }
func (k *keys) lines() string { return k.base() + "lines" }

// Escape writes name with every byte outside A–Z a–z 0–9 . _ ~ @ + - as %XX,
// so that no name can end the hash tag or reach into another's keys.
func Escape(name string) string { return shard.Escape(name) }

const (
	uuidMark   = "~"
	digestMark = "#"
	// longestMember is as long as an ULID, and as crypto/rand.Text. With it a timeline of 100
	// admissions has less than 4.5 kB.
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
		return uuidMark + base64.RawURLEncoding.EncodeToString(raw[:])
	}
	if len(id) <= longestMember && !strings.HasPrefix(id, uuidMark) && !strings.HasPrefix(id, digestMark) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return digestMark + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// AdmissionID answers the ID as the admissions of a Timeline have it.
func AdmissionID(id string) string { return memberID(member(id)) }

// memberID is the inverse of member, as far as there is one.
func memberID(m string) string {
	if len(m) != 23 || !strings.HasPrefix(m, uuidMark) {
		return m
	}
	raw, err1 := base64.RawURLEncoding.DecodeString(m[1:])
	id, err2 := uuid.FromBytes(raw)
	if err1 != nil || err2 != nil {
		return m
	}
	return id.String()
}
