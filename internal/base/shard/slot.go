package shard

import (
	"net/url"
	"strings"
)

// slots is the number of hash slots of a Cluster.
const slots = 16384

// Escape writes name with every byte outside A–Z a–z 0–9 . _ ~ @ + - as %XX,
// so that no name can end the hash tag or lead to the keys of a different name.
func Escape(name string) string { return inPaths.Replace(url.PathEscape(name)) }

// inPaths escapes the other bytes that url.PathEscape leaves unchanged.
var inPaths = strings.NewReplacer("$", "%24", "&", "%26", ":", "%3A", "=", "%3D")

// UserTag returns the hash tag of all keys of one app's user.
func UserTag(app, user string) string {
	if app == "" {
		return Escape(user)
	}
	return Escape(app) + "/" + Escape(user)
}

// slotOf returns the hash slot of a key with this hash tag: the tag's CRC16/XMODEM modulo slots. See
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/.
func slotOf(tag string) int { return int(crc(0, tag)) % slots }

// crc continues a CRC16.
func crc(sum uint16, text string) uint16 {
	for i := range len(text) {
		sum = sum<<8 ^ crcs[byte(sum>>8)^text[i]]
	}
	return sum
}

// crcs are the CRC16s of each byte.
var crcs = func() (all [256]uint16) {
	for i := range all {
		sum := uint16(i) << 8
		for range 8 {
			carry := sum&0x8000 != 0
			sum <<= 1
			if carry {
				sum ^= 0x1021
			}
		}
		all[i] = sum
	}
	return all
}()

const digits = "0123456789abcdefghijklmnopqrstuvwxyz"

// nameInSlot returns the first of base-000, base-001, …, base-zzz, base-0000, … in the hash slot.
func nameInSlot(base string, slot int) string {
	base += "-"
	before := crc(0, base)
	for length := 3; ; length++ {
		suffix := []byte(strings.Repeat(digits[:1], length))
		for more := true; more; more = next(suffix) {
			if int(crc(before, string(suffix)))%slots == slot {
				return base + string(suffix)
			}
		}
	}
}

// next increments the suffix, and reports whether it did not overflow.
func next(suffix []byte) bool {
	for i := len(suffix) - 1; i >= 0; i-- {
		if d := strings.IndexByte(digits, suffix[i]) + 1; d < len(digits) {
			suffix[i] = digits[d]
			return true
		}
		suffix[i] = digits[0]
	}
	return false
}
