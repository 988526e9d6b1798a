package shard

// slots is how many hash slots a Cluster has.
const slots = 16384

// slotOf is the slot of a key that is, or has in braces, the tag: its CRC16 as XMODEM has
// it. See https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/.
func slotOf(tag string) int {
	crc := uint16(0)
	for _, b := range []byte(tag) {
		crc ^= uint16(b) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return int(crc) % slots
}

const digits = "0123456789abcdefghijklmnopqrstuvwxyz"

// landing is the first of base-000, base-001, …, base-zzz, base-0000, … that falls into the
// slot.
func landing(base string, slot int) string {
	for length := 3; ; length++ {
		suffix := make([]byte, length)
		for of := 1; of > 0; {
			name := base + "-"
			for _, digit := range suffix {
				name += string(digits[digit])
			}
			if slotOf(name) == slot {
				return name
			}
			of = length
			for of > 0 {
				if suffix[of-1]++; int(suffix[of-1]) < len(digits) {
					break
				}
				of--
				suffix[of] = 0
			}
		}
	}
}
