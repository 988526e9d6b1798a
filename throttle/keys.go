package throttle

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/google/uuid"

	"github.com/pushpace/pushpace/internal/base/shard"
)

// The keys of a user, all under one hash tag so that they are in one hash slot of a Redis Cluster.
// Times are in µs of Redis's clock.
//
//	PREFIX:{APP/USER}:sent          sorted set of admissions: member(ID)
//	PREFIX:{APP/USER}:sent:CAT      sorted set of admissions of a category with limits
//	PREFIX:{APP/USER}:slots         sorted set of waiting notifications: "CAT ZONE ID"
//	PREFIX:{APP/USER}:early         sorted set of the members of slots with a job that is due
//	                                after its slot
//	PREFIX:{APP/USER}:lines         hash while notifications wait: length of each line, and
//	                                when slots were last placed
//
// The struct holds the keys of a claim; methods derive the other keys.
type keys struct {
	sent, catSent, slots string
}

// timeline returns the key of the scope's admissions.
func (k *keys) timeline(scope string) string {
	if scope == General {
		return k.sent
	}
	return k.catSent
}

func userKeys(prefix string, r *Request) keys {
	base := prefix + ":{" + shard.UserTag(r.App, r.User) + "}:"
	k := keys{catSent: base + "sent:" + Escape(r.category()), slots: base + "slots"}
	k.sent = k.catSent[:len(base+"sent")] // a substring, to save memory: many users are cached
	return k
}

func (k *keys) base() string  { return k.sent[:len(k.sent)-len("sent")] }
func (k *keys) early() string { return k.base() + "early" }
func (k *keys) lines() string { return k.base() + "lines" }

// Escape writes name with every byte outside A–Z a–z 0–9 . _ ~ @ + - as %XX, so that no name can
// end the hash tag or collide with another key.
func Escape(name string) string { return shard.Escape(name) }

const (
	uuidMark   = "~"
	digestMark = "#"
	// longestMember is the length of a ULID and of crypto/rand.Text. With it a timeline of 100
	// admissions is smaller than 4.5 kB.
	longestMember = 26
)

// member returns the short form of an ID, to save memory in the many sets of admissions: the ID
// itself if it is short, a UUID in 23 bytes, otherwise a digest of 128 bits.
func member(id string) string {
	if id == "" {
		return ""
	}
	if raw, err := uuid.Parse(id); err == nil && raw.String() == id { // only the canonical form
		return uuidMark + base64.RawURLEncoding.EncodeToString(raw[:])
	}
	if len(id) <= longestMember && !strings.HasPrefix(id, uuidMark) && !strings.HasPrefix(id, digestMark) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return digestMark + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// AdmissionID returns the ID in the form of a Timeline's admissions.
func AdmissionID(id string) string { return memberID(member(id)) }

// memberID returns the ID of a member, but returns a digest unchanged.
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
