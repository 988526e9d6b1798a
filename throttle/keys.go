package throttle

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// The keys of a user, all under one hash tag so that a Redis Cluster keeps
// them in one slot. All but the last are sorted sets of instants in µs of Redis's
// clock.
//
//	PREFIX:{APP/USER}:sent          admissions, by member(ID)
//	PREFIX:{APP/USER}:booked        who waits for the general limits, by ID
//	PREFIX:{APP/USER}:reserved      the places among the general limits of those
//	                                who wait for their category's, by ID
//	PREFIX:{APP/USER}:sent:CAT      the category's part of each, where the
//	PREFIX:{APP/USER}:booked:CAT    category has limits of its own
//	PREFIX:{APP/USER}:line:CAT      who waits for the category's limits, by ID
//	PREFIX:{APP/USER}:beyond[:CAT]  the last instant at which somebody comes back
//	                                who waits without a slot
type keys struct {
	sent, booked, reserved string
	catSent, catBooked     string
	line, beyond           string
}

func userKeys(prefix string, r *Request) keys {
	tag := Escape(r.User)
	if r.App != "" {
		tag = Escape(r.App) + "/" + tag
	}
	base := prefix + ":{" + tag + "}:"
	k := keys{sent: base + "sent", booked: base + "booked", reserved: base + "reserved", beyond: base + "beyond"}
	if category := r.category(); category != nil {
		name := Escape(category.Name)
		k.catSent, k.catBooked, k.line = k.sent+":"+name, k.booked+":"+name, base+"line:"+name
		k.beyond += ":" + name
	}
	return k
}

const hexDigits = "0123456789ABCDEF"

// Escape writes name with every byte outside A–Z a–z 0–9 . _ ~ @ + - as %XX,
// so that no name can end the hash tag or reach into another's keys.
func Escape(name string) string {
	plain := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.IndexByte("._~@+-", c) >= 0
	}
	i := 0
	for i < len(name) && plain(name[i]) {
		i++
	}
	if i == len(name) {
		return name
	}
	var b strings.Builder
	b.WriteString(name[:i])
	for ; i < len(name); i++ {
		if c := name[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}

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
	if raw, ok := parseUUID(id); ok {
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
	raw, err := base64.RawURLEncoding.DecodeString(m[1:])
	if err != nil {
		return m
	}
	h := hex.EncodeToString(raw)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// parseUUID reads a UUID in its canonical form, lower case, with hyphens.
func parseUUID(s string) (raw [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return raw, false
	}
	digits := make([]byte, 0, 32)
	for i := range len(s) {
		if s[i] != '-' {
			if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return raw, false
			}
			digits = append(digits, s[i])
		}
	}
	if len(digits) != 32 {
		return raw, false
	}
	_, err := hex.Decode(raw[:], digits)
	return raw, err == nil
}
