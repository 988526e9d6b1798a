package shard

import (
	"net/url"
	"strings"
)

// slots is how many hash slots a Cluster has.
const slots = 16384

// Escape writes name with every byte outside A–Z a–z 0–9 . _ ~ @ + - as %XX,
// so that no name can end the hash tag or reach into another's keys.
func Escape(name string) string { return inPaths.Replace(url.PathEscape(name)) }

// inPaths are the other bytes that a URL's path has as they are.
var inPaths = strings.NewReplacer("$", "%24", "&", "%26", ":", "%3A", "=", "%3D")

// UserTag is the hash tag of what is kept of an app's user alone.
func UserTag(app, user string) string {
	if app == "" {
		return Escape(user)
	}
	return Escape(app) + "/" + Escape(user)
}

// slotOf is the slot of a key that is, or has in braces, the tag: its CRC16 as XMODEM has
// it. See https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/.
func slotOf(tag string) int { return int(crc(0, tag)) % slots }

// crc goes on with a CRC16.
func crc(sum uint16, text string) uint16 {
	for i := range len(text) {
		sum = sum<<8 ^ crcs[byte(sum>>8)^text[i]]
	}
	return sum
}

// crcs are those of each byte.
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

// landing is the first of base-000, base-001, …, base-zzz, base-0000, … that falls into the
// slot.
func landing(base string, slot int) string {
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

// next counts the digits up, and reports whether there are more of as many.
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
